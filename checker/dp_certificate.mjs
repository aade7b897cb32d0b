// Check a certificate that a composition of releases is (epsilon, delta)-differentially private.
//
//     node dp_certificate.mjs FILE        prints PROVEN or REFUSED; the exit status is 0 only if the claim is proven
//
// The twin of dp_certificate.py, function by function, for browsers too; see the comments there. It needs no library and
// computes with integers: x stands for x / 2^B. Both give the same verdict and the same integer.
//
// SPDX-License-Identifier: 0BSD (copy, change and share it, with or without this notice; there is no warranty)

const GUARD = 64n, D = 1n << 30n;
const MAX_BYTES = 1 << 16, MAX_BITS = 1024, MAX_CELLS = 20000, MAX_TERMS = 20000, MAX_WORK = 1n << 29n;
const LN_2 = 54916777467707473351141471128n;
const PI_BELOW = [314159265358979323846264338327950288419716939937510n, 10n ** 50n];
const DENSITY = BigInt(  // 1 / sqrt(2 pi) * 2^1024, rounded down
  "0x" +
  "662114cf50d942343f2cf1402eae38bfd3829f30512706d8c0471b4802639d2e9df8ac55447d3db723f5d3abb374e88deb14277970be1513" +
  "278e993445f08cff98282e1fd947ce4b4ecdbd6e65c23395cacb544de69eea32c276937b1bc567691c1cec4882c77aacefe1f6708329ab3f" +
  "c8d2ab2435ee45c9150c426bbb49487e",
);
const MECHANISMS = {
  gaussian: ["noise_multiplier"], laplace: ["noise_multiplier"], "randomized-response": ["flip_probability", "categories"],
  "discrete-gaussian": ["noise_scale", "sensitivity"], "discrete-laplace": ["noise_scale", "sensitivity"],
  gdp: ["mu"], approximate: ["epsilon", "delta"],
};
const GROUPS = ["laplace", "discrete-gaussian", "discrete-laplace", "gdp"];
let B, ONE, work;

class Refused extends Error {}
const need = (fact, reason) => {
  if (!fact) throw new Refused(reason);
  return fact;
};
const spend = (amount) => {
  work += amount;
  need(work <= MAX_WORK, "the check would take too long");
};
const squared = () => (B + 400n) ** 2n;

// --- Numbers and functions. An interval is a pair [lower, upper]; a fraction is [numerator, denominator], below 0 never ----

const max = (a, b) => (a > b ? a : b), min = (a, b) => (a < b ? a : b), abs = (x) => (x < 0n ? -x : x);
const size = (x) => BigInt(x === 0n ? 0 : abs(x).toString(16).length * 4 - Math.clz32(parseInt(abs(x).toString(16)[0], 16)) + 28);
const floor = (a, b) => (a % b !== 0n && a < 0n !== b < 0n ? a / b - 1n : a / b);
const ceil = (a, b) => -floor(-a, b);
const mul = (a, b) => -((-a * b) >> B);
const interval = (f) => [floor(f[0] << B, f[1]), ceil(f[0] << B, f[1])];
const expBetween = (low, high) => [exp(low)[0], exp(high)[1]];
const sum = (values) => values.reduce((a, b) => a + b, 0n);
const dot = (weights, values) => [
  sum(weights.map((w, i) => w[0] * values[i][0])) >> B,
  sum(weights.map((w, i) => mul(w[1], values[i][1]))),
];
function ratio(p, q) {
  need(q[0] > 0n, "there are too few bits");
  return [floor(p[0] << B, q[1]), ceil(p[1] << B, q[0])];
}

function exp(x) {
  if (x < 0n) return ratio([ONE, ONE], exp(-x));
  const k = max(0n, size(x) - B + 8n), unit = B + GUARD;
  need(k <= 21n, "an exponent is too large");
  spend((1n << k) >> 5n);
  const y = x << (GUARD - k);
  let n = 0n, term = 1n << unit, low = term;
  while (term) {
    n += 1n;
    term = ((term * y) >> unit) / n;
    low += term;
  }
  let high = low + 2n * n + 2n;
  for (let i = 0n; i < k; i++) [low, high] = [(low * low) >> unit, -((-high * high) >> unit)];
  return [low >> GUARD, -(-high >> GUARD)];
}

function log(x) {
  need(x > 0n, "the logarithm of 0 is needed");
  let y = (((size(x) - B) * LN_2) << B) >> 96n, change = ONE, step = 1n << 8n;
  while (abs(change) >> (B - B / 3n)) {
    const e = exp(y)[0];
    change = floor((2n * (x - e)) << B, x + e);
    y += change;
  }
  while (exp(y)[0] < x) [y, step] = [y + step, 4n * step];
  return y;
}

function isqrt(n) {
  let x = 1n << (size(n) / 2n + 1n);
  for (;;) {
    const y = (x + n / x) >> 1n;
    if (y >= x) return x;
    x = y;
  }
}

function phi(x) {
  const t = abs(x), density = DENSITY >> (1024n - B), low2 = (t * t) >> B, high2 = mul(t, t);
  if (low2 >> B > 2n * B) return x > 0n ? [ONE - 1n, ONE] : [0n, 1n];
  let n = 1n, low = t, high = t, sumLow = t, sumHigh = t;
  while (high > 1n || 2n * high2 > (n + 2n) << B) {
    n += 2n;
    [low, high] = [(low * low2) / (n << B), ceil(high * high2, n << B)];
    [sumLow, sumHigh] = [sumLow + low, sumHigh + high];
  }
  low = (sumLow * density) / exp((high2 + 1n) >> 1n)[1];
  high = min(ceil((sumHigh + high) * (density + 1n), exp(low2 >> 1n)[0]), ONE / 2n);
  return x > 0n ? [ONE / 2n + low, ONE / 2n + high] : [ONE / 2n - high, ONE / 2n - low];
}

function turn(angle, bits) {
  const k = max(0n, size(angle) - bits + 8n), unit = B + GUARD;
  need(k <= 40n, "an angle is too large");
  const y = (angle << unit) >> (bits + k), sums = [1n << unit, 0n];
  let term = 1n << unit;
  for (let n = 1; term !== 0n && term !== -1n; n++) {
    term = floor((term * y) >> unit, BigInt(n));
    sums[n % 2] += n % 4 < 2 ? term : -term;
  }
  let [re, im] = sums;
  for (let i = 0n; i < k; i++) [re, im] = [(re * re - im * im) >> unit, (2n * re * im) >> unit];
  return [re >> GUARD, im >> GUARD];
}

// --- Mechanisms: cells [p, q, low, high] ----------------------------------------------------------------------------------

const NONE = [0n, 0n];

function normals(means, pWeights, qWeights, edges, lowest) {
  spend((BigInt(means.length * edges.length) * squared()) >> 4n);
  const ratioAt = (x) => {
    const exponents = means.map((mean) => (mean * (2n * x - mean)) >> (B + 1n));
    const heights = exponents.map((y) => expBetween(y, y + 1n));
    return ratio(dot(pWeights, heights), dot(qWeights, heights));
  };
  const ends = [means.map(() => NONE), ...edges.map((x) => means.map((mean) => phi(x - mean))), means.map(() => [ONE, ONE])];
  const ratios = [lowest, ...edges.map(ratioAt), null];
  return ratios.slice(1).map((high, i) => {
    const masses = means.map((_, j) => [max(0n, ends[i + 1][j][0] - ends[i][j][1]), ends[i + 1][j][1] - ends[i][j][0]]);
    return [dot(pWeights, masses), dot(qWeights, masses), ratios[i], high];
  });
}

function binomial(n, k) {
  let found = 1n;
  for (let i = 0n; i < k; i++) found = (found * (n - i)) / (i + 1n);
  return found;
}

function gaussian(mu, q, group, replaced, grid) {
  const edges = edgesOf(grid), rest = [q[1] - q[0], q[1]], whole = [ONE, ONE];
  if (q[0] === q[1]) return normals([0n, mu], [NONE, whole], [whole, NONE], edges, NONE);
  if (replaced) {
    const [r, s] = [interval(rest), interval(q)];
    return normals([0n, mu, -mu], [r, s, NONE], [r, NONE, s], edges, NONE);
  }
  spend(BigInt(group) ** 3n << 8n);
  const counts = Array.from({ length: group + 1 }, (_, j) => BigInt(j)), all = BigInt(group);
  const weights = counts.map((j) => interval([binomial(all, j) * q[0] ** j * rest[0] ** (all - j), q[1] ** all]));
  return normals(counts.map((j) => j * mu), weights, counts.map((j) => (j ? NONE : whole)), edges, weights[0]);
}

const gaussianOf = (square, q = [1n, 1n], group = 1, replaced = false) => {
  const mu = isqrt(interval(square)[1] << B) + 1n;
  return (grid) => gaussian(mu, q, group, replaced, grid);
};

function laplace(a, count) {
  spend((BigInt(count) * squared()) >> 4n);
  const ends = Array.from({ length: count + 1 }, (_, i) => (BigInt(i) * a) / BigInt(count));
  const marks = ends.map((x) => [exp(x - a), exp(-x), exp(2n * x - a)]), whole = [ONE, ONE];
  const cells = [[whole, exp(-a), exp(a)], [exp(-a), whole, exp(-a)]].map(([p, q, at]) => [p, q, at, at]);
  marks.slice(1).forEach((j, n) => {
    const i = marks[n];
    cells.push([[j[0][0] - i[0][1], j[0][1] - i[0][0]], [i[1][0] - j[1][1], i[1][1] - j[1][0]], i[2], j[2]]);
  });
  const half = (x) => [max(0n, x[0]) >> 1n, ceil(x[1], 2n)];
  return cells.map(([p, q, low, high]) => [half(p), half(q), low, high]);
}

const atoms = (pairs) =>
  pairs.map(([p, q]) => {
    const at = p[1] && q[1] ? ratio(p, q) : NONE;
    return [p, q, at, q[1] ? at : null];
  });

function integerNoise(exponent, shift, reach) {
  spend((BigInt(reach) * squared()) >> 4n);
  const exponents = Array.from({ length: reach + 2 }, (_, k) => exponent(BigInt(k)));
  const weights = exponents.slice(0, -1).map(interval).map(([low, high]) => expBetween(-high, -low));
  const [last, next] = exponents.slice(-2), fall = [next[0] * last[1] - last[0] * next[1], next[1] * last[1]];
  const falls = exp(-interval(fall)[0])[1];
  need(falls < ONE, "there are too few bits");
  const tail = ceil(weights[reach][1] * falls, ONE - falls);
  const [low, high] = [0, 1].map((i) => 2n * sum(weights.map((w) => w[i])) - weights[0][i] + 2n * BigInt(i) * tail);
  const chances = weights.map((w) => ratio(w, [low, high]));
  const alone = [0n, sum(chances.slice(reach - shift + 1).map((c) => c[1])) + 2n * ceil(tail << B, low)];
  const both = Array.from({ length: 2 * reach - shift + 1 }, (_, i) => i + shift - reach);
  const pairs = both.map((k) => [chances[Math.abs(k - shift)], chances[Math.abs(k)]]);
  return atoms([...pairs, [alone, NONE], [NONE, alone]]);
}

// --- From cells to the distribution of the privacy loss -------------------------------------------------------------------

function split(cells) {
  const rays = [];
  let infinite = 0n;
  for (const [p, q, low, high] of cells) {
    const above = max(0n, p[1] - ((low[0] * q[0]) >> B));
    if (high === null || (low[0] === high[0] && low[1] === high[1])) {
      rays.push([q[1], low]);
      infinite += high === null ? above : 0n;
    } else {
      const gap = need(max(0n, high[0] - low[1]), "two edges are too close");
      rays.push([ceil(above << B, gap), high]);
      rays.push([min(q[1], ceil(max(0n, mul(high[1], q[1]) - p[0]) << B, gap)), low]);
    }
  }
  return [rays, infinite];
}

function together(a, b) {
  spend((BigInt(a[0].length * b[0].length) * (B + 400n)) >> 2n);
  const rays = a[0].flatMap(([m, r]) => b[0].map(([n, s]) => [mul(m, n), [(r[0] * s[0]) >> B, mul(r[1], s[1])]]));
  return [rays, a[1] + b[1]];
}

function sample([rays, infinite], q) {
  const shares = [interval([q[1] - q[0], q[1]]), interval(q)];
  return [rays.map(([mass, at]) => [mass, dot(shares, [[ONE, ONE], at])]), mul(shares[1][1], infinite)];
}

function losses([rays, infinite], way) {
  spend((BigInt(rays.length) * squared()) >> 4n);
  if (way === "add") {
    need(rays.every(([, at]) => at[0] > 0n), "there are too few bits");
    return [rays.filter(([mass]) => mass).map(([mass, at]) => [mass, log(ceil(ONE << B, at[0]))]), 0n];
  }
  return [rays.filter(([mass, at]) => mass && at[1]).map(([mass, at]) => [mul(mass, at[1]), log(at[1])]), infinite];
}

// --- Composition ----------------------------------------------------------------------------------------------------------

const times = (a, b) => [
  (a[0] * b[0] - a[1] * b[1]) >> B, (a[0] * b[1] + a[1] * b[0]) >> B, a[2] + b[2] + ((a[2] * b[2]) >> B) + 3n,
];

function power(x, count) {
  let out = [ONE, 0n, 0n];
  while (count) {
    if (count & 1n) out = times(out, x);
    count >>= 1n;
    if (count) x = times(x, x);
  }
  return out;
}

function compose(laws, epsilon, delta, [t, s, v, terms]) {
  spend((terms * sum(laws.map(([, count]) => 8n * size(count))) * (B + 400n)) >> 2n);
  const rest = t * (t + D), parts = [];
  let height = 0n;
  for (const [law, count] of laws) {
    const weights = law.map(([mass, loss]) => mul(mass, exp(-((-t * loss) >> 30n))[1])), total = sum(weights);
    spend((terms * BigInt(law.length) * (max(B, size(total)) + 400n)) >> 2n);
    height += count * log(total);
    parts.push([weights.map((w) => [w, 0n]), law.map(([, loss]) => turn(s * loss, B + 30n)), total, count]);
  }
  height += ceil((v * rest) << B, 2n * D ** 3n) - interval([epsilon[0] * t, epsilon[1] * D])[0];
  height += log(interval([delta[1], delta[0]])[1]);
  const at = [s * (epsilon[0] * 2n * D * D - epsilon[1] * v * (2n * t + D)), epsilon[1] * 2n * D ** 3n];
  const spin = turn(floor(at[0] << B, at[1]), B);
  let phase = [ONE, 0n], line = ONE, bell;
  for (let m = 1n; m <= terms; m++) {
    let here = [ONE, 0n, 0n];
    for (const part of parts) {
      const [points, turns, total, count] = part;
      for (let i = 0; i < points.length; i++) {
        const [a, b] = points[i], [c, d] = turns[i];
        points[i] = [(a * c - b * d) >> B, (a * d + b * c) >> B];
      }
      const off = (m * (2n * total + (BigInt(4 * points.length) << B))) / total + 4n;
      const mean = [0, 1].map((i) => floor(sum(points.map((x) => x[i])) << B, total));
      need(off < ONE, "rounding outweighs the sum");
      here = times(here, power([...mean, off], count));
      need(here[2] < ONE, "rounding outweighs the sum");
    }
    phase = times([...phase, 0n], [spin[0], -spin[1], 0n]).slice(0, 2);
    const [re, im, off] = times(here, [...phase, 8n * m]), w = m * s;
    const zr = rest - w * w, zi = w * (2n * t + D);
    const value = floor((re * zr + im * zi) * rest, zr * zr + zi * zi) + off + 2n;
    bell = expBetween(-ceil((v * w * w) << B, 2n * D ** 3n), -(((v * w * w) << B) / (2n * D ** 3n)));
    line += 2n * (value > 0n ? mul(value, bell[1]) : (value * bell[0]) >> B) + 2n;
  }
  const tail = mul(bell[1], ceil((2n * rest) << B, terms * s * D));
  const bound = mul(mul(exp(height)[1], ceil((D * D) << B, rest)), mul(ceil(s << B, D), line) + tail);
  return ceil(bound * PI_BELOW[1], 2n * PI_BELOW[0]);
}

function boundDelta(laws, epsilon, delta, hints) {
  const low = interval(epsilon)[0];
  if (sum(laws.map(([law, count]) => count * law.reduce((a, [, x]) => (a === null ? x : max(a, x)), null))) <= low) return 0n;
  if (sum(laws.map(([, count]) => count)) === 1n) {
    const e = exp(low)[0] << B;
    const found = sum(laws[0][0].map(([mass, loss]) => mul(mass, max(0n, ONE - e / exp(loss)[1]))));
    return ceil(found * delta[1], delta[0]);
  }
  need(hints.length, "the proof has no line");
  return compose(laws, epsilon, delta, hints.map(BigInt));
}

// --- The document ---------------------------------------------------------------------------------------------------------

function number(text) {
  const m = typeof text === "string" && /^([0-9]{1,40})(?:\.([0-9]{1,60}))?(?:e(-?[0-9]{1,3}))?$/.exec(text);
  need(m, "a number is malformed");
  const digits = m[2] ?? "", e = BigInt(m[3] ?? "0") - BigInt(digits.length), top = BigInt(m[1] + digits);
  return e >= 0n ? [top * 10n ** e, 1n] : [top, 10n ** -e];
}
const positive = (text) => (need(number(text)[0], "a number must be above 0"), number(text));
const whole = (value, least, most) => {
  need(Number.isSafeInteger(value) && least <= value && value <= most, "an integer is missing or out of bounds");
  return value;
};
const listed = (value, least, most) => {
  need(Array.isArray(value) && least <= value.length && value.length <= most, "a list is missing, too short or too long");
  return value;
};
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const fields = (value, ...names) => {
  const same = isObject(value) && Object.keys(value).join() === names.join();
  need(same, `an object must have the keys ${names.join(", ")}, in order`);
  return Object.values(value);
};

function edgesOf(grid) {
  need(grid.length > 3 && grid.length % 2 === 0, "a grid is malformed");
  const [bits, start, ...runs] = grid.map((x) => whole(x, -(2 ** 52), 2 ** 52));
  const counts = runs.filter((_, i) => i % 2).reduce((a, b) => a + b, 0);
  need(bits >= 0 && bits <= 40 && runs.every((x) => x > 0) && counts < MAX_CELLS, "a grid is malformed");
  const found = [BigInt(start)];
  for (let i = 0; i < runs.length; i += 2)
    for (let j = 0; j < runs[i + 1]; j++) found.push(found[found.length - 1] + BigInt(runs[i]));
  return found.map((x) => x << (B - BigInt(bits)));
}

function cellsOf(mechanism, distance, grid) {
  const [kind, ...values] = Object.values(mechanism), over = (n, [a, b]) => [n * b, a];
  const one = ["laplace", "discrete-gaussian", "discrete-laplace"].includes(kind);
  need(grid.length === Number(one), "a grid is malformed");
  if (kind === "laplace") return laplace(interval(over(BigInt(distance), positive(values[0])))[1], whole(grid[0], 1, MAX_CELLS));
  if (kind.startsWith("discrete")) {
    const [a, b] = positive(values[0]), shift = distance * whole(values[1], 1, MAX_CELLS), reach = whole(grid[0], 1, MAX_CELLS);
    need(shift < reach, "a grid is malformed");
    const square = (k) => [k * k * b * b, 2n * a * a];
    return integerNoise(kind === "discrete-gaussian" ? square : (k) => [k * b, a], shift, reach);
  }
  if (kind === "approximate") {
    const odds = expBetween(...interval(number(values[0]))), [top, under] = number(values[1]);
    need(top < under, "delta must be below 1");
    const q = dot([ratio([ONE, ONE], [ONE + odds[0], ONE + odds[1]])], [interval([under - top, under])]);
    const p = dot([q], [odds]), lost = interval([top, under]);
    return atoms([[p, q], [q, p], [lost, NONE], [NONE, lost]]);
  }
  const [a, b] = positive(values[0]), k = BigInt(whole(values[1], 2, 2 ** 52));
  need(a <= b, "flip_probability must be at most 1");
  const middle = k > 2n ? [[a * (k - 2n), b * k]] : [];
  const chances = [[b * k - a * k + a, b * k], ...middle, [a, b * k]].map(interval);
  return atoms(chances.map((p, i) => [p, chances[chances.length - 1 - i]]));
}

function readReleases(releases, relation, group) {
  const found = [], replaced = relation === "replace-one", add = (a, b) => [a[0] * b[1] + b[0] * a[1], a[1] * b[1]];
  let joint = [0n, 1n];
  for (const release of listed(releases, 1, 1000)) {
    const [mechanisms, poisson, times_] = fields(release, "mechanisms", "poisson", "count"), q = positive(poisson), others = [];
    let square = [0n, 1n];
    need(q[0] <= q[1], "a sampling probability must be at most 1");
    const sampled = q[0] < q[1], distance = sampled ? 1 : group * (1 + replaced);
    need(!sampled || group === 1 || !replaced, "not covered: such a group");
    for (const mechanism of listed(mechanisms, 1, 16)) {
      const kind = isObject(mechanism) ? mechanism.type : null;
      need(typeof kind === "string" && Object.hasOwn(MECHANISMS, kind), "not covered: such a mechanism");
      fields(mechanism, "type", ...MECHANISMS[kind]);
      if (kind === "gaussian") {
        const [a, b] = positive(mechanism.noise_multiplier);
        square = add(square, [(BigInt(distance) * b) ** 2n, a ** 2n]);
        continue;
      }
      const statement = kind === "gdp" || kind === "approximate";
      need(!sampled || (group === 1 && !replaced && !(statement && relation === "zero-out")), "not covered: such a sample");
      need(group === 1 || GROUPS.includes(kind), "not covered: such a group");
      need(replaced || kind !== "randomized-response", "not covered: randomized response under this relation");
      if (kind === "gdp") {
        const [a, b] = positive(mechanism.mu);
        square = add(square, [(BigInt(group) * a) ** 2n, b ** 2n]);
      } else others.push((grid) => cellsOf(mechanism, distance, grid));
    }
    const count = BigInt(whole(times_, 1, 10 ** 9));
    if (!sampled) {
      joint = add(joint, [count * square[0], square[1]]);
      found.push(...others.map((other) => [[other], [1n, 1n], false, count]));
    } else if (others.length) found.push([[...(square[0] ? [gaussianOf(square)] : []), ...others], q, true, count]);
    else found.push([[gaussianOf(square, q, group, replaced)], [1n, 1n], !replaced, count]);
  }
  return [...(joint[0] ? [[[gaussianOf(joint)], [1n, 1n], false, 1n]] : []), ...found];
}

export function check(certificate) {
  const [form, claim, proof] = fields(certificate, "format", "claim", "proof");
  const [epsilonText, deltaText, relation, group, stated] = fields(claim, "epsilon", "delta", "relation", "group", "releases");
  const [bits, lines] = fields(proof, "bits", "lines");
  need(form === "dp-certificate/1", "the format is not dp-certificate/1");
  need(["add-or-remove-one", "zero-out", "replace-one"].includes(relation), "not covered: this relation");
  [B, work] = [BigInt(whole(bits, 64, MAX_BITS)), 0n];
  ONE = 1n << B;
  const epsilon = number(epsilonText), delta = positive(deltaText);
  need(delta[0] < delta[1], "delta must be below 1");
  const releases = readReleases(stated, relation, whole(group, 1, 1000));
  const ways = releases.some(([, , bent]) => bent) ? ["remove", "add"] : [null];
  let worst = 0n;
  listed(lines, ways.length, ways.length).forEach((line, i) => {
    const [grids, ...hints] = listed(line, 1, 5), size_ = releases.reduce((n, [parts]) => n + parts.length, 0);
    need([0, 4].includes(hints.length) && hints.every((x) => whole(x, 1, 2 ** 52)), "a line is malformed");
    whole(hints[3] ?? 1, 1, MAX_TERMS);
    const left = [...listed(grids, size_, size_)], laws = [];
    let infinite = 0n;
    for (const [parts, q, bent, count] of releases) {
      let found = null;
      for (const cells of parts) {
        const made = split(cells(listed(left.shift(), 0, MAX_CELLS)));
        found = found ? together(found, made) : made;
      }
      const [law, lost] = losses(q[0] < q[1] ? sample(found, q) : found, bent ? ways[i] : null);
      laws.push([law, count]);
      infinite += count * lost;
    }
    worst = max(worst, boundDelta(laws, epsilon, delta, hints) + ceil(infinite * delta[1], delta[0]));
  });
  return worst;
}

export function judge(bytes) {
  try {
    need(bytes.length <= MAX_BYTES, `the file is larger than ${MAX_BYTES} bytes`);
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\n$/, "");
    need(/^[ -~]*$/.test(text), "the text is not canonical: no blanks, no key twice");
    const certificate = JSON.parse(text);
    need(JSON.stringify(certificate) === text, "the text is not canonical: no blanks, no key twice");
    const bound = check(certificate), { epsilon, delta } = certificate.claim;
    const parts = `${ceil(1000000n * bound, ONE)} millionths of the claimed ${delta}`;
    const said = `at epsilon ${epsilon} delta is at most ${parts} (${bound.toString(16)})`;
    return [bound <= ONE, `${bound <= ONE ? "PROVEN:" : "REFUSED:"} ${said}`];
  } catch (problem) {
    return [false, `REFUSED: ${problem instanceof Refused ? problem.message : "it cannot be read"}`];
  }
}

if (typeof process !== "undefined" && process.argv?.[2]) {
  const [proven, said] = judge((await import("node:fs")).readFileSync(process.argv[2]));
  console.log(said);
  process.exitCode = proven ? 0 : 1;
}
