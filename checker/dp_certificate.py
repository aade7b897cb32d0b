"""Check a certificate that a composition of releases is (epsilon, delta)-differentially private.

    python dp_certificate.py FILE       prints PROVEN or REFUSED; the exit status is 0 only if the claim is proven

Standard library, integers only: x stands for x / 2^B. Every rounding goes to the safe side. A number in brackets names
a lemma of docs/accounting/certificates.md. The claim says what is proven. The proof holds hints, and no hint can make a
false claim pass: hints decide only how tight the computed bound is.

SPDX-License-Identifier: 0BSD (copy, change and share it, with or without this notice; there is no warranty)
"""
import json, math, re, sys
from fractions import Fraction
from functools import partial
from itertools import accumulate

GUARD, D = 64, 1 << 30  # more bits inside a function; tilt, step and smoothing are multiples of 1 / D
MAX_BYTES, MAX_BITS, MAX_CELLS, MAX_TERMS, MAX_WORK = 1 << 16, 1024, 20000, 20000, 1 << 29
LN_2 = 54916777467707473351141471128  # about ln 2 * 2^96: only a start
PI_BELOW = 314159265358979323846264338327950288419716939937510, 10**50  # a fraction below pi [1]
DENSITY = int(  # 1 / sqrt(2 pi) * 2^1024, rounded down [1]
    "662114cf50d942343f2cf1402eae38bfd3829f30512706d8c0471b4802639d2e9df8ac55447d3db723f5d3abb374e88deb14277970be1513"
    "278e993445f08cff98282e1fd947ce4b4ecdbd6e65c23395cacb544de69eea32c276937b1bc567691c1cec4882c77aacefe1f6708329ab3f"
    "c8d2ab2435ee45c9150c426bbb49487e", 16
)  # fmt: skip
MECHANISMS = {
    "gaussian": ("noise_multiplier",), "laplace": ("noise_multiplier",), "gdp": ("mu",),
    "approximate": ("epsilon", "delta"), "randomized-response": ("flip_probability", "categories"),
    "discrete-gaussian": ("noise_scale", "sensitivity"), "discrete-laplace": ("noise_scale", "sensitivity"),
}  # fmt: skip
GROUPS = "laplace", "discrete-gaussian", "discrete-laplace", "gdp"

class Refused(Exception): pass  # nothing is proven

def need(fact, reason):
    if not fact:
        raise Refused(reason)
    return fact

def spend(amount):
    """Refuse before a computation takes long; all languages count alike."""
    global work
    work += amount
    need(work <= MAX_WORK, "the check would take too long")

# --- Numbers and functions. An interval is a pair (lower, upper) ------------------------------------------------------

def ceil(a, b): return -(-a // b)
def mul(a, b): return -(-a * b >> B)  # rounded up
def interval(f): return (f.numerator << B) // f.denominator, ceil(f.numerator << B, f.denominator)
def exp_between(low, high): return exp(low)[0], exp(high)[1]

def ratio(p, q):  # of intervals
    need(q[0] > 0, "there are too few bits")
    return (p[0] << B) // q[1], ceil(p[1] << B, q[0])

def dot(weights, values):  # of intervals
    return sum(w[0] * x[0] for w, x in zip(weights, values)) >> B, sum(mul(w[1], x[1]) for w, x in zip(weights, values))

def exp(x):
    """e^x as an interval [2]: a Taylor series of x / 2^k, squared k times."""
    if x < 0:
        return ratio((ONE, ONE), exp(-x))
    k, unit = max(0, x.bit_length() - B + 8), B + GUARD
    need(k <= 21, "an exponent is too large")
    spend(1 << k >> 5)
    y, n, term, total = x << GUARD - k, 0, 1 << unit, 1 << unit
    while term:
        n += 1
        term = (term * y >> unit) // n
        total += term
    low, high = total, total + 2 * n + 2
    for _ in range(k):
        low, high = low * low >> unit, -(-high * high >> unit)
    return low >> GUARD, -(-high >> GUARD)

def log(x):
    """A number whose exponential is at least x [3]: Halley's iteration from a power of 2, then a proof by exp."""
    need(x > 0, "the logarithm of 0 is needed")
    y, change, step = (x.bit_length() - B) * LN_2 << B >> 96, ONE, 1 << 8
    while abs(change) >> B - B // 3:
        e = exp(y)[0]
        change = (2 * (x - e) << B) // (x + e)
        y += change
    while exp(y)[0] < x:
        y, step = y + step, 4 * step
    return y

def phi(x):
    """The normal distribution function [4]: its density at t = |x| times t + t^3/3 + t^5/15 + ..."""
    t, n, density = abs(x), 1, DENSITY >> 1024 - B
    low2, high2 = t * t >> B, mul(t, t)
    if low2 >> B > 2 * B:  # what lies beyond is less than a unit
        return (ONE - 1, ONE) if x > 0 else (0, 1)
    low = high = sum_low = sum_high = t
    while high > 1 or 2 * high2 > (n + 2) << B:
        n += 2
        low, high = low * low2 // (n << B), ceil(high * high2, n << B)
        sum_low, sum_high = sum_low + low, sum_high + high
    low = sum_low * density // exp((high2 + 1) >> 1)[1]
    high = min(ceil((sum_high + high) * (density + 1), exp(low2 >> 1)[0]), ONE // 2)
    return (ONE // 2 + low, ONE // 2 + high) if x > 0 else (ONE // 2 - high, ONE // 2 - low)

def turn(angle, bits):
    """e^(i angle / 2^bits), within 2 units [5]: a Taylor series of a small part, squared as often as needed."""
    k, unit = max(0, angle.bit_length() - bits + 8), B + GUARD
    need(k <= 40, "an angle is too large")
    y, re_im, term, n = angle << unit >> bits + k, [1 << unit, 0], 1 << unit, 0
    while term not in (0, -1):
        n += 1
        term = (term * y >> unit) // n
        re_im[n % 2] += term if n % 4 < 2 else -term
    for _ in range(k):
        re_im = re_im[0] ** 2 - re_im[1] ** 2 >> unit, 2 * re_im[0] * re_im[1] >> unit
    return re_im[0] >> GUARD, re_im[1] >> GUARD

# --- Mechanisms: cells (p, q, low, high) of a dominating pair (P, Q). p and q are the masses of a set of outcomes, low
# and high the least and the largest ratio P / Q in it; all are intervals. `high` is None where Q may have no mass.

def normals(means, p_weights, q_weights, edges, floor):
    """Mixtures of unit normals whose ratio rises from `floor` without bound [6], cut at the edges."""
    spend(len(means) * len(edges) * (B + 400) ** 2 >> 4)

    def ratio_at(x):  # each normal density over that of N(0, 1)
        exponents = [mean * (2 * x - mean) >> B + 1 for mean in means]
        heights = [exp_between(y, y + 1) for y in exponents]
        return ratio(dot(p_weights, heights), dot(q_weights, heights))

    ends = [[(0, 0)] * len(means), *([phi(x - mean) for mean in means] for x in edges), [(ONE, ONE)] * len(means)]
    ratios = [floor, *map(ratio_at, edges), None]
    for a, b, low, high in zip(ends, ends[1:], ratios, ratios[1:]):
        masses = [(max(0, j[0] - i[1]), j[1] - i[0]) for i, j in zip(a, b)]
        yield dot(p_weights, masses), dot(q_weights, masses), low, high

def gaussian(mu, q, group, replaced, grid):
    """N(0) and N(mu), or a group of units, each in a Poisson sample with probability q; or one unit replaced [7]."""
    edges = edges_of(grid)
    if q == 1:
        return normals((0, mu), ((0, 0), (ONE, ONE)), ((ONE, ONE), (0, 0)), edges, (0, 0))
    if replaced:
        rest, share, none = interval(1 - q), interval(q), (0, 0)
        return normals((0, mu, -mu), (rest, share, none), (rest, none, share), edges, none)
    spend(group**3 << 8)
    n, d = q.numerator, q.denominator
    shares = (math.comb(group, j) * n**j * (d - n) ** (group - j) << B for j in range(group + 1))
    weights = [(share // d**group, ceil(share, d**group)) for share in shares]
    return normals([j * mu for j in range(group + 1)], weights, [(ONE, ONE), *[(0, 0)] * group], edges, weights[0])

def gaussian_of(square, q=1, group=1, replaced=False):
    return partial(gaussian, math.isqrt(interval(square)[1] << B) + 1, q, group, replaced)  # mu, rounded up

def laplace(a, count):
    """Atoms at losses a and -a; between, densities e^(x - a) / 2 and e^-x / 2 for x in [0, a] [8]."""
    spend(count * (B + 400) ** 2 >> 4)
    ends = [(exp(x - a), exp(-x), exp(2 * x - a)) for x in (i * a // count for i in range(count + 1))]
    cells = [((ONE, ONE), exp(-a), exp(a), exp(a)), (exp(-a), (ONE, ONE), exp(-a), exp(-a))]
    for i, j in zip(ends, ends[1:]):
        cells.append(((j[0][0] - i[0][1], j[0][1] - i[0][0]), (i[1][0] - j[1][1], i[1][1] - j[1][0]), i[2], j[2]))
    return [((max(0, p[0]) >> 1, ceil(p[1], 2)), (max(0, q[0]) >> 1, ceil(q[1], 2)), *ends) for p, q, *ends in cells]

def atoms(pairs):
    """Single outcomes."""
    for p, q in pairs:
        at = ratio(p, q) if p[1] and q[1] else (0, 0)
        yield p, q, at, at if q[1] else None

def integer_noise(exponent, shift, reach):
    """Weights e^-exponent(k), convex in |k|, up to `reach`; a geometric series bounds the others [9]."""
    spend(reach * (B + 400) ** 2 >> 4)
    weights = [exp_between(-high, -low) for low, high in (interval(exponent(k)) for k in range(reach + 1))]
    falls = exp(-interval(exponent(reach + 1) - exponent(reach))[0])[1]
    need(falls < ONE, "there are too few bits")
    tail = ceil(weights[-1][1] * falls, ONE - falls)
    low, high = (2 * sum(w[i] for w in weights) - weights[0][i] + 2 * i * tail for i in (0, 1))
    chances = [ratio(w, (low, high)) for w in weights]
    alone = 0, sum(high for _, high in chances[reach - shift + 1 :]) + 2 * ceil(tail << B, low)  # ends, and the cut
    both = [(chances[abs(k - shift)], chances[abs(k)]) for k in range(shift - reach, reach + 1)]
    return atoms([*both, (alone, (0, 0)), ((0, 0), alone)])

# --- From cells to the distribution of the privacy loss ---------------------------------------------------------------

def split(cells):
    """Each cell as two rays, at its extreme ratios [10]: masses under Q with ratios, and the mass that P alone has."""
    rays, infinite = [], 0
    for p, q, low, high in cells:
        above = max(0, p[1] - (low[0] * q[0] >> B))
        if high is None or low == high:
            rays.append((q[1], low))
            infinite += above if high is None else 0
        else:
            gap = need(max(0, high[0] - low[1]), "two edges are too close")
            rays.append((ceil(above << B, gap), high))
            rays.append((min(q[1], ceil(max(0, mul(high[1], q[1]) - p[0]) << B, gap)), low))
    return rays, infinite

def together(a, b):
    """Two releases on one sample: all products [11]."""
    spend(len(a[0]) * len(b[0]) * (B + 400) >> 2)
    rays = [(mul(m, n), (r[0] * s[0] >> B, mul(r[1], s[1]))) for m, r in a[0] for n, s in b[0]]
    return rays, a[1] + b[1]

def sample(rays, infinite, q):
    """With probability q the unit is in the sample: (1-q) Q + q P against Q [11]."""
    shares = interval(1 - q), interval(q)
    return [(mass, dot(shares, ((ONE, ONE), at))) for mass, at in rays], mul(shares[1][1], infinite)

def losses(rays, infinite, way):
    """Losses with masses, and the mass of an infinite loss: of P against Q, or, to "add" a unit, of Q against P."""
    spend(len(rays) * (B + 400) ** 2 >> 4)
    if way == "add":
        need(all(low > 0 for _, (low, _) in rays), "there are too few bits")
        return [(mass, log(ceil(ONE << B, low))) for mass, (low, _) in rays if mass], 0
    return [(mul(mass, high), log(high)) for mass, (_, high) in rays if mass and high], infinite

# --- Composition ------------------------------------------------------------------------------------------------------

def times(a, b):
    """A product of complex numbers (re, im, off), each of modulus at most 1 and known within `off` units [12]."""
    return a[0] * b[0] - a[1] * b[1] >> B, a[0] * b[1] + a[1] * b[0] >> B, a[2] + b[2] + (a[2] * b[2] >> B) + 3

def power(x, count):
    out = ONE, 0, 0
    while count:
        out = times(out, x) if count & 1 else out
        count >>= 1
        x = times(x, x) if count else x
    return out

def compose(laws, epsilon, delta, t, s, v, terms):
    """Bound delta(epsilon) / delta [13]: an inversion integral, summed. Tilt t / D, step s / D, smoothing v / D."""
    spend(terms * sum(8 * count.bit_length() for _, count in laws) * (B + 400) >> 2)
    rest, height, parts = t * (t + D), 0, []
    for law, count in laws:
        weights = [mul(mass, exp(-(-t * loss >> 30))[1]) for mass, loss in law]  # from here on these are the law
        total = sum(weights)
        spend(terms * len(law) * (max(B, total.bit_length()) + 400) >> 2)
        height += count * log(total)
        parts.append([[(w, 0) for w in weights], [turn(s * loss, B + 30) for _, loss in law], total, count])
    height += ceil(v * rest << B, 2 * D**3) - interval(epsilon * Fraction(t, D))[0] + log(interval(1 / delta)[1])
    spin = turn(interval(Fraction(s, D) * (epsilon - Fraction(v * (2 * t + D), 2 * D * D)))[0], B)
    phase, line = (ONE, 0), ONE
    for m in range(1, terms + 1):
        here = ONE, 0, 0
        for part in parts:
            points, turns, total, count = part
            part[0] = points = [(a * c - b * d >> B, a * d + b * c >> B) for (a, b), (c, d) in zip(points, turns)]
            off = m * (2 * total + (4 * len(points) << B)) // total + 4
            mean = (sum(a for a, _ in points) << B) // total, (sum(b for _, b in points) << B) // total, off
            need(off < ONE, "rounding outweighs the sum")
            here = times(here, power(mean, count))
            need(here[2] < ONE, "rounding outweighs the sum")
        phase = times((*phase, 0), (spin[0], -spin[1], 0))[:2]
        re, im, off = times(here, (*phase, 8 * m))
        w = m * s
        zr, zi = rest - w * w, w * (2 * t + D)  # z (z + 1) for z = t + i w, times D^2
        value = (re * zr + im * zi) * rest // (zr * zr + zi * zi) + off + 2
        bell = exp_between(-ceil(v * w * w << B, 2 * D**3), -((v * w * w << B) // (2 * D**3)))
        line += 2 * (mul(value, bell[1]) if value > 0 else value * bell[0] >> B) + 2
    tail = mul(bell[1], ceil(2 * rest << B, w * D))
    bound = mul(mul(exp(height)[1], ceil(D * D << B, rest)), mul(ceil(s << B, D), line) + tail)
    return ceil(bound * PI_BELOW[1], 2 * PI_BELOW[0])

def bound_delta(laws, epsilon, delta, hints):
    """Bound delta(epsilon) / delta."""
    low = interval(epsilon)[0]
    if sum(max((loss for _, loss in law), default=0) * count for law, count in laws) <= low:
        return 0
    if sum(count for _, count in laws) == 1:  # a plain sum
        found = sum(mul(mass, max(0, ONE - (exp(low)[0] << B) // exp(loss)[1])) for mass, loss in laws[0][0])
        return ceil(found * delta.denominator, delta.numerator)
    need(hints, "the proof has no line")
    return compose(laws, epsilon, delta, *hints)

# --- The document -----------------------------------------------------------------------------------------------------

def number(text):
    """A rational number that all languages read alike."""
    form = r"[0-9]{1,40}(\.[0-9]{1,60})?(e-?[0-9]{1,3})?"
    need(type(text) is str and re.fullmatch(form, text), "a number is malformed")
    return Fraction(text)

def positive(text): return need(number(text), "a number must be above 0")

def whole(value, least, most):
    need(type(value) is int and least <= value <= most, "an integer is missing or out of bounds")
    return value

def listed(value, least, most):
    need(type(value) is list and least <= len(value) <= most, "a list is missing, too short or too long")
    return value

def fields(value, *names):
    need(type(value) is dict and list(value) == [*names], f"an object must have the keys {', '.join(names)}, in order")
    return value.values()

def edges_of(grid):
    """Edges of cells: [bits, start, width, count, ...], a start and runs of equal widths in units of 2^-bits."""
    need(len(grid) > 3 and len(grid) % 2 == 0, "a grid is malformed")
    bits, start, *runs = (whole(x, -(1 << 52), 1 << 52) for x in grid)
    need(0 <= bits <= 40 and all(x > 0 for x in runs) and sum(runs[1::2]) < MAX_CELLS, "a grid is malformed")
    widths = (width for width, count in zip(runs[::2], runs[1::2]) for _ in range(count))
    return [x << B - bits for x in accumulate(widths, initial=start)]

def cells_of(mechanism, distance, grid):
    """A mechanism that is not Gaussian; neighbors move what is released by `distance` sensitivities."""
    kind, *values = mechanism.values()
    need(len(grid) == (kind in ("laplace", "discrete-gaussian", "discrete-laplace")), "a grid is malformed")
    if kind == "laplace":
        return laplace(interval(distance / positive(*values))[1], whole(*grid, 1, MAX_CELLS))
    if kind.startswith("discrete"):
        scale, shift, reach = positive(values[0]), distance * whole(values[1], 1, MAX_CELLS), whole(*grid, 1, MAX_CELLS)
        need(shift < reach, "a grid is malformed")
        square = 2 * scale * scale
        return integer_noise(lambda k: k * k / square if kind == "discrete-gaussian" else k / scale, shift, reach)
    if kind == "approximate":  # a response whose ratio is e^epsilon, and delta where anything may be seen [8]
        odds, delta, none = exp_between(*interval(number(values[0]))), number(values[1]), (0, 0)
        need(delta < 1, "delta must be below 1")
        q = dot([ratio((ONE, ONE), (ONE + odds[0], ONE + odds[1]))], [interval(1 - delta)])
        p = dot([q], [odds])
        return atoms([(p, q), (q, p), (interval(delta), none), (none, interval(delta))])
    flip, k = positive(values[0]), whole(values[1], 2, 1 << 52)
    need(flip <= 1, "flip_probability must be at most 1")
    chances = [interval(x) for x in (1 - flip + flip / k, *[flip - 2 * flip / k] * (k > 2), flip / k)]
    return atoms(zip(chances, chances[::-1]))

def read_releases(releases, relation, group):
    """The claim as (parts, q, bent, count): parts make cells of a grid; adding is unlike removing where it is bent."""
    found, joint, replaced = [], Fraction(0), relation == "replace-one"
    for release in listed(releases, 1, 1000):
        mechanisms, q, count = fields(release, "mechanisms", "poisson", "count")
        q, square, others = positive(q), Fraction(0), []
        need(q <= 1, "a sampling probability must be at most 1")
        need(q == 1 or group == 1 or not replaced, "not covered: such a group")
        distance = group * (1 + replaced) if q == 1 else 1
        for mechanism in listed(mechanisms, 1, 16):
            kind = mechanism.get("type") if type(mechanism) is dict else None
            need(type(kind) is str and kind in MECHANISMS, "not covered: such a mechanism")
            fields(mechanism, "type", *MECHANISMS[kind])
            if kind == "gaussian":
                square += (distance / positive(mechanism["noise_multiplier"])) ** 2
                continue
            statement = kind in ("gdp", "approximate")  # of zero-out, it does not say what is released without the unit
            unsure = replaced or statement and relation == "zero-out"
            need(q == 1 or group == 1 and not unsure, "not covered: such a sample")
            need(group == 1 or kind in GROUPS, "not covered: such a group")
            need(replaced or kind != "randomized-response", "not covered: randomized response under this relation")
            if kind == "gdp":
                square += (group * positive(mechanism["mu"])) ** 2
            else:
                others.append(partial(cells_of, mechanism, distance))
        if q == 1:
            joint += whole(count, 1, 10**9) * square
            found += [([other], q, False, count) for other in others]
        elif others:
            found.append(([gaussian_of(square)] * (square > 0) + others, q, True, whole(count, 1, 10**9)))
        else:
            found.append(([gaussian_of(square, q, group, replaced)], 1, not replaced, whole(count, 1, 10**9)))
    return [([gaussian_of(joint)], 1, False, 1)] * (joint > 0) + found  # Gaussians without sampling are one [14]

def distribution(parts, q, way, grids):
    """The losses of one release with masses, and the mass of an infinite loss."""
    found = None
    for cells in parts:
        new = split(cells(listed(next(grids), 0, MAX_CELLS)))
        found = together(found, new) if found else new
    return losses(*(sample(*found, q) if q < 1 else found), way)

def check(certificate):
    """An upper bound on delta at the claimed epsilon over the claimed delta, in units of 2^-B; sets B."""
    global B, ONE, work
    form, claim, proof = fields(certificate, "format", "claim", "proof")
    epsilon, delta, relation, group, releases = fields(claim, "epsilon", "delta", "relation", "group", "releases")
    bits, lines = fields(proof, "bits", "lines")
    need(form == "dp-certificate/1", "the format is not dp-certificate/1")
    need(relation in ("add-or-remove-one", "zero-out", "replace-one"), "not covered: this relation")
    B, work, worst = whole(bits, 64, MAX_BITS), 0, 0
    ONE, epsilon, delta = 1 << B, number(epsilon), positive(delta)
    need(delta < 1, "delta must be below 1")
    releases = read_releases(releases, relation, whole(group, 1, 1000))
    ways = ("remove", "add") if any(bent for _, _, bent, _ in releases) else (None,)
    for way, line in zip(ways, listed(lines, len(ways), len(ways))):
        grids, *hints = listed(line, 1, 5)
        need(len(hints) in (0, 4) and all(whole(x, 1, 1 << 52) for x in hints), "a line is malformed")
        whole(hints[-1] if hints else 1, 1, MAX_TERMS)
        size = sum(len(parts) for parts, *_ in releases)
        grids, laws, infinite = iter(listed(grids, size, size)), [], 0
        for parts, q, bent, count in releases:
            law, lost = distribution(parts, q, way if bent else None, grids)
            laws, infinite = [*laws, (law, count)], infinite + count * lost
        bound = bound_delta(laws, epsilon, delta, hints) + ceil(infinite * delta.denominator, delta.numerator)
        worst = max(worst, bound)
    return worst

def judge(content):
    """Whether a certificate proves its claim, and a line that says so or why not."""
    try:
        need(len(content) <= MAX_BYTES, f"the file is larger than {MAX_BYTES} bytes")
        text = content.decode("ascii").removesuffix("\n")
        certificate = json.loads(text)
        again = json.dumps(certificate, separators=(",", ":"))
        need(again == text, "the text is not canonical: no blanks, no key twice")
        bound, claim = check(certificate), certificate["claim"]
    except Exception as problem:  # nothing is proven, whatever went wrong
        return False, f"REFUSED: {problem if type(problem) is Refused else 'it cannot be read'}"
    parts = f"{ceil(10**6 * bound, ONE)} millionths of the claimed {claim['delta']}"
    said = f"at epsilon {claim['epsilon']} delta is at most {parts} ({bound:x})"
    return bound <= ONE, f"{'PROVEN' if bound <= ONE else 'REFUSED'}: {said}"

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        proven, said = judge(file.read(MAX_BYTES + 1))
    print(said)
    sys.exit(0 if proven else 1)
