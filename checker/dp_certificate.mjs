// Check a certificate that a composition of releases is (epsilon, delta)-differentially private.

//     node dp_certificate.mjs FILE        prints PROVEN or REFUSED; the exit status is 0 only if the claim is proven

// The twin of dp_certificate.py, function by function, for browsers too; see the comments there. It needs no library
// and computes with integers: x stands for x / 2^B. All checkers give the same verdict and the same integer.
// SPDX-License-Identifier: 0BSD (copy, change and share it, with or without this notice; there is no warranty)

const GUARD = 64n, D = 1n << 30n, NONE = [0n, 0n], MOST = 2 ** 52;
const MAX_BYTES = 1 << 16, MAX_BITS = 1024, MAX_CELLS = 20000, MAX_TERMS = 20000, MAX_WORK = 1n << 29n;
const DENSITY = BigInt("0x662114cf50d942343f2cf1402eae38bfd3829f30512706d8c0471b4802639d2e9df8ac55447d3db723f5d3" +
  "abb374e88deb14277970be1513278e993445f08cff98282e1fd947ce4b4ecdbd6e65c23395cacb544de69eea32c276937b1bc567691c1cec" +
  "4882c77aacefe1f6708329ab3fc8d2ab2435ee45c9150c426bbb49487e");
const MECHANISMS = {
  gaussian: ["noise_multiplier"], laplace: ["noise_multiplier"], gdp: ["mu"], "bounded-range": ["range"],
  "randomized-response": ["flip_probability", "categories"], approximate: ["epsilon", "delta"], zcdp: ["rho"],
  "discrete-gaussian": ["noise_scale", "sensitivity"], "discrete-laplace": ["noise_scale", "sensitivity"] };
const STATEMENTS = ["gdp", "zcdp", "approximate", "bounded-range"], one = [1n, 1n];
let B, ONE, work;

class Refused extends Error {}
function need(fact, reason, value = fact) {
  if (!fact) throw new Refused(reason);
  return value; }
const spend = (amount) => need((work += amount) <= MAX_WORK, "the check would take too long");

// --- Numbers and functions. An interval is a pair [lower, upper], a fraction [numerator, denominator] ----------------

const max = (a, b) => (a > b ? a : b), min = (a, b) => (a < b ? a : b), abs = (x) => (x < 0n ? -x : x);
const floor = (a, b) => (a % b !== 0n && a < 0n !== b < 0n ? a / b - 1n : a / b);
const ceil = (a, b) => -floor(-a, b), pairwise = (list) => list.slice(1).map((x, i) => [list[i], x]);
const mul = (a, b) => -((-a * b) >> B), expBetween = (low, high) => [exp(low)[0], exp(high)[1]];
const interval = ([n, d]) => [floor(n << B, d), ceil(n << B, d)], inverse = ([n, d]) => [d, n];
const range = (n) => Array.from({ length: n }, (_, i) => BigInt(i)), ascending = (a, b) => (a < b ? -1 : Number(a > b));
const sum = (values) => values.reduce((a, b) => a + b, 0n), size = (x) => (x ? BigInt(abs(x).toString(2).length) : 0n);
const ratio = (p, q) => need(q[0] > 0n, "there are too few bits", [(p[0] << B) / q[1], ceil(p[1] << B, q[0] || 1n)]);
function isqrt(n) {  // Newton's iteration from above
  for (let x = 1n << (size(n) / 2n + 1n), y; ; x = y) if ((y = (x + n / x) >> 1n) >= x) return x; }
const dot = (w, x) => [sum(w.map((v, i) => v[0] * x[i][0])) >> B, sum(w.map((v, i) => mul(v[1], x[i][1])))];

function exp(x) {
  if (x < 0n) return ratio([ONE, ONE], exp(-x));
  const k = max(0n, size(x) - B + 12n), unit = B + GUARD;
  need(k <= 25n, "an exponent is too large");
  spend(((B + 400n) ** 2n >> 6n) + ((1n << k) >> 9n));
  let low = 1n << unit;
  for (let n = unit / 12n + 1n; n > 0n; n--) low = (1n << unit) + ((low * (x << (GUARD - k))) >> unit) / n;
  let high = low + 4n;
  for (let i = 0n; i < k; i++) [low, high] = [(low * low) >> unit, -((-high * high) >> unit)];
  return [low >> GUARD, -(-high >> GUARD)]; }

function log(x) {
  need(x > 0n, "the logarithm of 0 is needed");
  let y = floor(((size(x) - B) * 693147n) << B, 1000000n), change = ONE, step = 1n << 8n;
  while (abs(change) >> (B - B / 3n)) {
    const e = exp(y)[0];
    y += change = floor((2n * (x - e)) << B, x + e); }
  while (exp(y)[0] < x) [y, step] = [y + step, 4n * step];
  return y; }

function phi(x) {
  const t = abs(x), density = DENSITY >> (1024n - B), low2 = (t * t) >> B, high2 = mul(t, t);
  spend((B + 400n) ** 2n >> 4n);
  if (low2 >> B > 2n * B) return x > 0n ? [ONE - 1n, ONE] : [0n, 1n];
  let n = 1n, low = t, high = t, sumLow = t, sumHigh = t;
  while (high > 1n || 2n * high2 > (n + 2n) << B) {
    n += 2n;
    [low, high] = [(low * low2) / (n << B), ceil(high * high2, n << B)];
    [sumLow, sumHigh] = [sumLow + low, sumHigh + high]; }
  low = (sumLow * density) / exp((high2 + 1n) >> 1n)[1];
  high = min(ceil((sumHigh + high) * (density + 1n), exp(low2 >> 1n)[0]), ONE / 2n);
  return x > 0n ? [ONE / 2n + low, ONE / 2n + high] : [ONE / 2n - high, ONE / 2n - low]; }

function turn(angle, bits) {
  const k = max(0n, size(angle) - bits + 12n), unit = B + GUARD;
  need(k <= 44n, "an angle is too large");
  const y = (angle << unit) >> (bits + k);
  let [re, im] = [1n << unit, 0n];
  for (let n = unit / 12n + 1n; n > 0n; n--)
    [re, im] = [(1n << unit) - floor((im * y) >> unit, n), floor((re * y) >> unit, n)];
  for (let i = 0n; i < k; i++) [re, im] = [(re * re - im * im) >> unit, (2n * re * im) >> unit];
  return [re >> GUARD, im >> GUARD]; }

// --- Points [x, y] of privacy profiles -----------------------------------------------------------------------------

function normals(means, pWeights, qWeights, edges, least) {
  const points = edges.map((x) => {
    const exponents = means.map((mean) => (mean * (2n * x - mean)) >> (B + 1n));
    const heights = exponents.map((y) => expBetween(y, y + 1n)), above = means.map((mean) => phi(mean - x));
    const at = ratio(dot(pWeights, heights), dot(qWeights, heights));
    return [at[1], dot(pWeights, above)[1] - ((at[0] * dot(qWeights, above)[0]) >> B)]; });
  return [[least[1], ONE - least[0]], ...points]; }

function gaussian(mu, q, group, replaced, grid) {
  const edges = edgesOf(grid), rest = interval([q[1] - q[0], q[1]]), share = interval(q), none = NONE;
  if (replaced) return normals([0n, mu, -mu], [rest, share, none], [rest, none, share], edges, none);
  spend((BigInt(group) ** 3n * (B + 400n)) >> 3n);
  const all = BigInt(group), drop = B * (all - 1n), counts = range(group + 1), choices = [1n];
  for (const j of counts) choices.push((choices.at(-1) * (all - j)) / (j + 1n));
  const chances = counts.map((j) => [0, 1].map((i) => choices[j] * share[i] ** j * rest[i] ** (all - j)));
  const weights = chances.map(([low, high]) => [low >> drop, -(-high >> drop)]);
  return normals(counts.map((j) => j * mu), weights, counts.map((j) => (j ? none : [ONE, ONE])), edges, weights[0]); }

const gaussianOf = (square, ...sample) => (grid) => gaussian(isqrt(square << B) + 1n, ...sample, grid);

function integerNoise(exponent, shift, reach) {
  need(shift < reach, "a grid is malformed");
  const weights = range(reach + 1).map(exponent).map(interval).map(([low, high]) => expBetween(-high, -low));
  const last = exponent(BigInt(reach)), next = exponent(BigInt(reach + 1));  // over the same denominator
  const falls = exp(-interval([next[0] - last[0], last[1]])[0])[1];
  need(falls < ONE, "there are too few bits");
  const total = 2n * sum(weights.map((w) => w[0])) - weights[0][0], tail = ceil(weights[reach][1] * falls, ONE - falls);
  const chances = weights.map((w) => ceil(w[1] << B, total)), outcomes = range(2 * reach - shift + 1).map(Number);
  const pairs = outcomes.map((i) => [Math.abs(i - reach), Math.abs(i + shift - reach)]);
  const rays = pairs.map(([j, k]) => [chances[k], ratio(weights[j], weights[k])[1]]);
  return pointsOf(rays, sum(chances.slice(reach - shift + 1)) + 2n * ceil(tail << B, total)); }

function concentrated(rho, loss) {
  const order = max(ONE, floor((loss + isqrt(loss * loss + (rho << (B + 3n)))) << B, 4n * rho)) + ONE / 2n;
  const logs = mul(order - ONE, log(order - ONE)) + mul(order, log(ceil(ONE << B, order)));
  return [exp(loss)[1], exp(mul(order - ONE, mul(order, rho) - loss) + logs)[1]]; }

function cutChance([n, d], most, all) {
  const k = most + 1n, rest = all - k, a = (d - n) * (k + 1n), b = n * rest;
  need(rest > 0n && b < a, "not covered: such a cut of samples");
  const logs = k * log(interval([n * all, d * k])[1]) + rest * log(interval([(d - n) * all, d * rest])[1]);
  const more = (log(interval([all * a ** 2n, 6n * k * rest * (a - b) ** 2n])[1]) + 1n) >> 1n;
  return exp(max(logs + more, -B << B))[1]; }

function profile(mechanism, distance, grid) {
  const [kind, first, ...more] = Object.values(mechanism), far = BigInt(distance);
  if (["laplace", "bounded-range", "discrete-gaussian", "discrete-laplace"].includes(kind)) {
    const cells = whole(listed(grid, 1, 1)[0], 1, MAX_CELLS), [n, d] = positive(first);
    if (more.length) {
      const exponent = kind === "discrete-gaussian" ? (k) => [k * k * d * d, 2n * n * n] : (k) => [k * d, n];
      return integerNoise(exponent, distance * whole(more[0], 1, MAX_CELLS), cells); }
    const most = interval(kind === "laplace" ? [far * d, n] : [far * n, d])[1], count = BigInt(cells);
    const losses = range(cells + 1).map((i) => floor((2n * i - count) * most, count));
    const points = losses.map((loss) => [exp(loss)[1], ONE - exp((loss - most) >> 1n)[0]]);
    return kind === "laplace" ? points : points.map(([x, y]) => [x, ceil(y * y, ONE - exp(-most)[1])]); }
  need(kind === "zcdp" || !grid.length, "a grid is malformed");
  const both = (points) => [...points, ...mirror(points)];
  if (kind === "zcdp") return both(edgesOf(grid).map((loss) => concentrated(first, loss)));
  const [n, d] = number(first);
  if (kind === "approximate") {
    const grown = range(distance + 1).map((j) => exp(interval([j * n, d])[1])[1]), most = grown.pop();
    return both([[most, mul(sum(grown), interval(number(more[0]))[1])]]); }
  need(n && n <= d, "a probability must be above 0 and at most 1");
  const k = BigInt(whole(more[0], 2, MOST));
  return both([[ONE, interval([d - n, d])[1]], [interval([n + k * (d - n), n])[1], 0n]]); }

// --- From a profile to the distribution of the privacy loss. A ray [mass, x] is mass of Q where P / Q is x ----------

const mirror = (points) => points.map(([x, y]) => [ceil(ONE << B, x), ONE - floor((ONE - y) << B, x)]);
const isBent = (a, b, c) => (a[1] - b[1]) * (c[0] - b[0]) > (b[1] - c[1]) * (b[0] - a[0]);

function raysOf(points) {
  const hull = [[0n, ONE]];
  for (const [x, y] of [...points].sort((a, b) => ascending(a[0], b[0]) || ascending(a[1], b[1])))
    if (y < hull.at(-1)[1]) {
      while (hull.length > 1 && !isBent(...hull.slice(-2), [x, y])) hull.pop();
      hull.push([x, y]); }
  const [end, lost] = hull.at(-1), edges = pairwise([...hull, [end + 1n, lost]]);
  const falls = edges.map(([[x, y], [u, v]]) => [y - v, u - x]);
  const masses = pairwise(falls).map(([[f, e], [g, h]]) => ceil((f * h - g * e) << B, e * h));
  return [masses.map((mass, i) => [mass, hull[i + 1][0]]), lost]; }

function pointsOf(rays, lost) {
  let mass = 0n, moment = 0n;
  return rays.sort((a, b) => ascending(b[1], a[1])).map(([m, x]) => {
    [mass, moment] = [mass + m, moment + m * x];
    return [x, lost + ceil(moment - mass * x, ONE)]; }); }

function together(first, second) {
  const [a, lost] = raysOf(first), [b, more] = raysOf(second);
  const n = BigInt(a.length * b.length), digits = 13n - size(n) / 3n;
  spend(2n * n * (B + 400n));
  const points = pointsOf(a.flatMap(([m, x]) => b.map(([n, y]) => [mul(m, n), mul(x, y)])), lost + more).reverse();
  return [...new Map(points.map(([x, y]) => [`${size(x)} ${x >> (max(B, size(x)) - digits)}`, [x, y]])).values()]; }

function distribution(parts, [n, d], way, grids) {
  let points = parts.map((part) => part(listed(grids.shift(), 0, MAX_CELLS))).reduce(together);
  if (n < d) {
    points = [[0n, ONE], ...points].map(([x, y]) => [ceil((d - n) * ONE + n * x, d), ceil(n * y, d)]);
    if (!way) points = points.filter(([x]) => x >= ONE).flatMap((point) => [point, ...mirror([point])]); }
  const [rays, lost] = raysOf(way === "add" ? mirror(points) : points);
  return [rays.map(([mass, x]) => [mul(mass, x), log(x)]), lost]; }

// --- Composition ---------------------------------------------------------------------------------------------------

const rotate = (a, b, c, d) => [(a * c - b * d) >> B, (a * d + b * c) >> B];

function times(a, b) {
  const off = a[2] + b[2] + ((a[2] * b[2]) >> B) + 3n;
  need(off < ONE, "rounding outweighs the sum");
  return [...rotate(a[0], a[1], b[0], b[1]), off]; }

function power(x, count) {
  if (count === 1n) return x;
  const half = power(x, count >> 1n);
  return count & 1n ? times(times(half, half), x) : times(half, half); }

function compose(laws, epsilon, delta, hints) {
  const [t, s, v, terms] = hints.map(BigInt), rest = t * (t + D), parts = [];
  let height = 0n, phase = [ONE, 0n], line = ONE, bell;
  spend((terms * sum(laws.map(([, count]) => 8n * size(count))) * (B + 400n)) >> 2n);
  for (const [law, count] of laws) {
    const points = law.map(([mass, loss]) => [mul(mass, exp(-((-t * loss) >> 30n))[1]), 0n]);
    const total = sum(points.map(([weight]) => weight));
    spend((terms * BigInt(law.length) * (max(B, size(total)) + 400n)) >> 2n);
    height += count * log(total);
    parts.push([points, law.map(([, loss]) => turn(s * loss, B + 30n)), total, count]); }
  height += ceil(v << B, 2n * D) - interval([epsilon[0] * t, epsilon[1] * D])[0];
  height += log(interval(inverse(delta))[1]);
  const at = s * (epsilon[0] * 2n * rest - epsilon[1] * v * (2n * t + D)), shift = 2n * D * rest;
  const spin = turn(interval([at, epsilon[1] * shift])[0], B);
  for (let m = 1n; m <= terms; m++) {
    let here = [ONE, 0n, 0n];
    for (const [points, turns, total, count] of parts) {
      points.forEach(([a, b], i, all) => (all[i] = rotate(a, b, ...turns[i])));
      const off = (m * (2n * total + (BigInt(4 * points.length) << B))) / total + 4n;
      here = times(here, power([...[0, 1].map((i) => floor(sum(points.map((x) => x[i])) << B, total)), off], count)); }
    phase = times([...phase, 0n], [spin[0], -spin[1], 0n]).slice(0, 2);
    const [re, im, off] = times(here, [...phase, 8n * m]), w = m * s, zr = rest - w * w, zi = w * (2n * t + D);
    const value = floor((re * zr + im * zi) * rest, zr * zr + zi * zi) + off + 2n;
    bell = expBetween(-ceil((v * w * w) << B, shift), -(((v * w * w) << B) / shift));
    line += 2n * (value > 0n ? mul(value, bell[1]) : (value * bell[0]) >> B) + 2n; }
  const tail = mul(bell[1], ceil((2n * rest) << B, terms * s * D));
  const bound = mul(mul(exp(height)[1], ceil((D * D) << B, rest)), mul(ceil(s << B, D), line) + tail);
  return ceil(bound * (DENSITY + 1n) ** 2n, 1n << 2048n); }

function boundDelta(laws, lost, epsilon, delta, hints) {
  const low = interval(epsilon)[0];
  const most = sum(laws.map(([law, count]) => count * (law.map(([, x]) => x).reduce(max, law[0]?.[1] ?? 0n))));
  need(delta[0] || (most <= low && !lost), "a loss exceeds epsilon");
  if (most <= low) return lost;
  if (sum(laws.map(([, count]) => count)) === 1n) {
    const found = sum(laws[0][0].map(([mass, loss]) => mul(mass, max(0n, ONE - (exp(low)[0] << B) / exp(loss)[1]))));
    return ceil(found * delta[1], delta[0]) + lost; }
  return compose(laws, epsilon, delta, need(hints.length && hints, "the proof has no line")) + lost; }

// --- The document --------------------------------------------------------------------------------------------------

function number(text) {
  const m = typeof text === "string" && /^([0-9]{1,40})(?:\.([0-9]{1,60}))?(?:e(-?[0-9]{1,3}))?$/.exec(text);
  const digits = need(m, "a number is malformed")[2] ?? "", e = BigInt(m[3] ?? "0") - BigInt(digits.length);
  return e >= 0n ? [BigInt(m[1] + digits) * 10n ** e, 1n] : [BigInt(m[1] + digits), 10n ** -e]; }
const positive = (text) => (need(number(text)[0], "a number must be above 0"), number(text));
const whole = (x, least, most) =>
  need(Number.isSafeInteger(x) && least <= x && x <= most, "an integer is missing or out of bounds", x);
const listed = (x, least, most) =>
  need(Array.isArray(x) && least <= x.length && x.length <= most, "a list is missing, too short or too long", x);
function fields(value, ...names) {
  const same = value?.constructor === Object && Object.keys(value).join() === names.join();
  return Object.values(need(same, `an object must have the keys ${names.join(", ")}, in order`, value)); }

function edgesOf(grid) {
  need(grid.length > 3 && grid.length % 2 === 0, "a grid is malformed");
  const [bits, start, ...runs] = grid.map((x) => whole(x, -MOST, MOST)), counts = runs.filter((_, i) => i % 2);
  const most = counts.reduce((a, b) => a + b, 0);
  need(bits >= 0 && bits <= 40 && Math.min(...runs) > 0 && most < MAX_CELLS, "a grid is malformed");
  const found = [BigInt(start)];
  counts.forEach((n, i) => range(n).forEach(() => found.push(found.at(-1) + BigInt(runs[2 * i]))));
  return found.map((x) => x << (B - BigInt(bits))); }

function readReleases(releases, relation, group) {
  let found = [], joint = 0n, rho = 0n, cut = 0n, replaced = relation === "replace-one";
  for (const release of listed(releases, 1, 1000)) {
    const [mechanisms, poisson, times_] = fields(release, "mechanisms", "poisson", "count"), others = [];
    const fixed = /^([0-9]{1,15}) of ([0-9]{1,15})$/.exec(need(typeof poisson === "string" && poisson, "no sample"));
    const limit = /^([^ ]+), at most ([0-9]{1,15}) of ([0-9]{1,15})$/.exec(poisson);
    const q = fixed ? [positive(fixed[1])[0], positive(fixed[2])[0]] : positive(limit ? limit[1] : poisson);
    const count = BigInt(whole(times_, 1, 1e9)), sampled = q[0] < q[1];
    let square = 0n, distance = !sampled || fixed ? group * (1 + replaced) : 1;
    need(q[0] <= q[1], "a probability must be at most 1");
    need(replaced || !fixed, "not covered: a sample of a fixed size under this relation");
    if (limit) cut += count * cutChance(q, BigInt(limit[2]), BigInt(limit[3]));
    for (const mechanism of listed(mechanisms, 1, 16)) {
      const kind = mechanism?.type, normal = kind === "gaussian", stated = STATEMENTS.includes(kind);
      need(Object.keys(MECHANISMS).includes(kind), "not covered: such a mechanism");
      const first = fields(mechanism, "type", ...MECHANISMS[kind])[1];
      const fit = group === 1 && (fixed || !replaced) && kind !== "zcdp" && (relation !== "zero-out" || !stated);
      need(!sampled || fit || (normal && (group === 1 || !replaced)), "not covered: such a sample");
      need(kind !== "randomized-response" || (replaced && group === 1), "not covered: such randomized response");
      const [n, d] = kind === "approximate" ? one : positive(first);
      if (normal) square += interval([(BigInt(distance) * d) ** 2n, n * n])[1];
      else if (kind === "gdp") square += interval([(BigInt(group) * n) ** 2n, d * d])[1];
      else if (kind === "zcdp") rho += interval([count * BigInt(group) ** 2n * n, d])[1];
      else others.push((grid) => profile(mechanism, stated ? group : distance, grid)); }
    if (!sampled) {
      joint += count * square;
      found.push(...others.map((other) => [[other], one, false, count]));
    } else if (!others.length && !fixed) found.push([[gaussianOf(square, q, group, replaced)], one, !replaced, count]);
    else found.push([[...(square ? [gaussianOf(square, one, 1, false)] : []), ...others], q, !fixed, count]); }
  if (rho) found.unshift([[(grid) => profile({ type: "zcdp", rho }, 1, grid)], one, false, 1n]);
  if (joint) found.unshift([[gaussianOf(joint, one, 1, false)], one, false, 1n]);
  return [found, cut]; }

export function check(certificate) {
  const [form, claim, proof] = fields(certificate, "format", "claim", "proof");
  const [stated, small, relation, group, list] = fields(claim, "epsilon", "delta", "relation", "group", "releases");
  const [bits, lines] = fields(proof, "bits", "lines");
  need(form === "dp-certificate/1", "the format is not dp-certificate/1");
  need(["add-or-remove-one", "zero-out", "replace-one"].includes(relation), "not covered: this relation");
  [B, ONE, work] = [BigInt(whole(bits, 64, MAX_BITS)), 1n << BigInt(bits), 0n];
  const epsilon = number(stated), delta = number(small);
  need(delta[0] < delta[1], "delta must be below 1");
  const [releases, cut] = readReleases(list, relation, whole(group, 1, 1000)), parts = releases.flatMap(([own]) => own);
  const ways = releases.some((release) => release[2]) ? ["remove", "add"] : [null];
  const added = cut && mul(cut, ONE + exp(interval(epsilon)[1])[1]);
  return listed(lines, ways.length, ways.length).reduce((worst, line, i) => {
    const [grids, ...hints] = listed(line, 1, 5);
    need([0, 4].includes(hints.length) && hints.every((x) => whole(x, 1, MOST)), "a line is malformed");
    whole(hints[3] ?? 1, 1, MAX_TERMS);
    const left = [...listed(grids, parts.length, parts.length)];
    const made = releases.map(([own, q, bent, count]) => [distribution(own, q, bent ? ways[i] : null, left), count]);
    const infinite = sum(made.map(([[, mass], count]) => count * mass)) + added;
    const lost = mul(infinite, interval(delta[0] ? inverse(delta) : one)[1]);
    return max(worst, boundDelta(made.map(([[law], count]) => [law, count]), lost, epsilon, delta, hints)); }, 0n); }

export function judge(bytes) {
  try {
    need(bytes.length <= MAX_BYTES, `the file is larger than ${MAX_BYTES} bytes`);
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).replace(/\n$/, "");
    const certificate = JSON.parse(text), same = /^[ -~]*$/.test(text) && JSON.stringify(certificate) === text;
    const bound = check(need(same, "the text has blanks, a key twice or other forms", certificate));
    const { epsilon, delta } = certificate.claim, parts = ceil(1000000n * bound, ONE), proven = bound <= ONE;
    const said = `delta is at most ${parts} millionths of the claimed ${delta} (${bound.toString(16)})`;
    return [proven, `${proven ? "PROVEN" : "REFUSED"}: at epsilon ${epsilon} ${said}`];
  } catch (problem) {
    return [false, `REFUSED: ${problem instanceof Refused ? problem.message : "it cannot be read"}`]; } }

if (typeof process !== "undefined" && process.argv?.[2]) {
  const [proven, said] = judge((await import("node:fs")).readFileSync(process.argv[2]));
  console.log(said);
  process.exitCode = proven ? 0 : 1; }
