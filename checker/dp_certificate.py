"""Check a certificate that a composition of releases is (epsilon, delta)-differentially private.

    python dp_certificate.py FILE       prints PROVEN or REFUSED; the exit status is 0 only if the claim is proven

Standard library, integers only: x stands for x / 2^B, and every rounding goes to the safe side. Numbers in brackets are
lemmas of docs/accounting/certificates.md. The claim says what is proven; hints decide only how tight the bound is.
SPDX-License-Identifier: 0BSD (copy, change and share it, with or without this notice; there is no warranty)
"""
import json, math, re, sys
from fractions import Fraction
from functools import partial, reduce
from itertools import accumulate, pairwise

GUARD, D = 64, 1 << 30  # more bits inside a function; tilt, step and smoothing are multiples of 1 / D
MAX_BYTES, MAX_BITS, MAX_CELLS, MAX_TERMS, MAX_WORK = 1 << 16, 1024, 20000, 20000, 1 << 29
DENSITY = int("662114cf50d942343f2cf1402eae38bfd3829f30512706d8c0471b4802639d2e9df8ac55447d3db723f5d3abb374e88deb14"
              "277970be1513278e993445f08cff98282e1fd947ce4b4ecdbd6e65c23395cacb544de69eea32c276937b1bc567691c1cec48"
              "82c77aacefe1f6708329ab3fc8d2ab2435ee45c9150c426bbb49487e", 16)  # 2^1024 / sqrt(2 pi), rounded down [1]
MECHANISMS = {
    "gaussian": ["noise_multiplier"], "laplace": ["noise_multiplier"], "gdp": ["mu"], "bounded-range": ["range"],
    "randomized-response": ["flip_probability", "categories"], "approximate": ["epsilon", "delta"], "zcdp": ["rho"],
    "discrete-gaussian": ["noise_scale", "sensitivity"], "discrete-laplace": ["noise_scale", "sensitivity"],
}
STATEMENTS = "gdp", "zcdp", "approximate", "bounded-range"

class Refused(Exception): pass  # nothing is proven

def need(fact, reason, value=None):
    if not fact: raise Refused(reason)
    return fact if value is None else value

def spend(amount):  # refuses before a check takes long; all languages count alike
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

def dot(w, x): return sum(a[0] * b[0] for a, b in zip(w, x)) >> B, sum(mul(a[1], b[1]) for a, b in zip(w, x))

def exp(x):  # e^x as an interval [2]: the Taylor series of x / 2^k, squared k times
    if x < 0: return ratio((ONE, ONE), exp(-x))
    k, unit = max(0, x.bit_length() - B + 12), B + GUARD
    need(k <= 25, "an exponent is too large")
    spend(((B + 400) ** 2 >> 6) + (1 << k >> 9))
    low = 1 << unit
    for n in range(unit // 12 + 1, 0, -1):
        low = (1 << unit) + (low * (x << GUARD - k) >> unit) // n
    high = low + 4
    for _ in range(k): low, high = low * low >> unit, -(-high * high >> unit)
    return low >> GUARD, -(-high >> GUARD)

def log(x):  # raises a guess by Halley's iteration until its exponential is at least x [3]
    need(x > 0, "the logarithm of 0 is needed")
    y, change, step = ((x.bit_length() - B) * 693147 << B) // 10**6, ONE, 1 << 8
    while abs(change) >> B - B // 3:
        e = exp(y)[0]
        y += (change := (2 * (x - e) << B) // (x + e))
    while exp(y)[0] < x: y, step = y + step, 4 * step
    return y

def phi(x):  # the normal distribution function [4]: its density at t = |x| times t + t^3/3 + t^5/15 + ...
    t, n, density = abs(x), 1, DENSITY >> 1024 - B
    low2, high2 = t * t >> B, mul(t, t)
    spend((B + 400) ** 2 >> 4)
    if low2 >> B > 2 * B: return (ONE - 1, ONE) if x > 0 else (0, 1)  # what lies beyond is less than a unit
    low = high = sum_low = sum_high = t
    while high > 1 or 2 * high2 > (n + 2) << B:
        n += 2
        low, high = low * low2 // (n << B), ceil(high * high2, n << B)
        sum_low, sum_high = sum_low + low, sum_high + high
    low = sum_low * density // exp((high2 + 1) >> 1)[1]
    high = min(ceil((sum_high + high) * (density + 1), exp(low2 >> 1)[0]), ONE // 2)
    return (ONE // 2 + low, ONE // 2 + high) if x > 0 else (ONE // 2 - high, ONE // 2 - low)

def turn(angle, bits):  # e^(i angle / 2^bits) within 2 units [5]: as exp
    k, unit = max(0, angle.bit_length() - bits + 12), B + GUARD
    need(k <= 44, "an angle is too large")
    y, re, im = angle << unit >> bits + k, 1 << unit, 0
    for n in range(unit // 12 + 1, 0, -1):
        re, im = (1 << unit) - (im * y >> unit) // n, (re * y >> unit) // n
    for _ in range(k): re, im = re * re - im * im >> unit, 2 * re * im >> unit
    return re >> GUARD, im >> GUARD

# --- Points (x, y) of privacy profiles: at epsilon = log x, delta is at most y; so it is if either is rounded up ------

def normals(means, p_weights, q_weights, edges, least):  # mixtures whose ratio rises from `least` [6]
    yield least[1], ONE - least[0]
    for x in edges:
        exponents = [mean * (2 * x - mean) >> B + 1 for mean in means]  # of each density over that of N(0, 1)
        heights, above = [exp_between(y, y + 1) for y in exponents], [phi(mean - x) for mean in means]
        at = ratio(dot(p_weights, heights), dot(q_weights, heights))
        yield at[1], dot(p_weights, above)[1] - (at[0] * dot(q_weights, above)[0] >> B)

def gaussian(mu, q, group, replaced, grid):  # a group in a Poisson sample, or one unit of it replaced [7]
    edges, rest, share, none = edges_of(grid), interval(1 - q), interval(q), (0, 0)
    if replaced: return normals((0, mu, -mu), (rest, share, none), (rest, none, share), edges, none)
    spend(group**3 * (B + 400) >> 3)
    chances = ([math.comb(group, j) * a**j * b ** (group - j) for a, b in zip(share, rest)] for j in range(group + 1))
    weights = [(low >> B * (group - 1), -(-high >> B * (group - 1))) for low, high in chances]
    return normals([j * mu for j in range(group + 1)], weights, [(ONE, ONE), *[none] * group], edges, weights[0])

def gaussian_of(square, *sample): return partial(gaussian, math.isqrt(square << B) + 1, *sample or (1, 1, False))

def integer_noise(exponent, shift, reach):  # weights e^-exponent(k), a geometric series beyond `reach` [9]
    need(shift < reach, "a grid is malformed")
    weights = [exp_between(-high, -low) for low, high in (interval(exponent(k)) for k in range(reach + 1))]
    falls = exp(-interval(exponent(reach + 1) - exponent(reach))[0])[1]
    need(falls < ONE, "there are too few bits")
    total = 2 * sum(low for low, _ in weights) - weights[0][0]
    chances = [ceil(high << B, total) for _, high in weights]
    lost = sum(chances[reach - shift + 1 :]) + 2 * ceil(ceil(weights[-1][1] * falls, ONE - falls) << B, total)
    pairs = [(abs(k - shift), abs(k)) for k in range(shift - reach, reach + 1)]
    return points_of([(chances[k], ratio(weights[j], weights[k])[1]) for j, k in pairs], lost)

def concentrated(rho, loss):  # rho-zCDP, by the Renyi divergence of an order near the best [10]
    order = max(ONE, (loss + math.isqrt(loss * loss + (rho << B + 3)) << B) // (4 * rho)) + ONE // 2
    logs = mul(order - ONE, log(order - ONE)) + mul(order, log(ceil(ONE << B, order)))
    return exp(loss)[1], exp(mul(order - ONE, mul(order, rho) - loss) + logs)[1]

def cut_chance(q, most, size):  # that more than `most` of `size` units are in a Poisson sample [16]
    k, rest = most + 1, size - most - 1
    need(rest > 0 and q * rest < (1 - q) * (k + 1), "not covered: such a cut of samples")
    falls = q * rest / ((1 - q) * (k + 1))
    logs = k * log(interval(q * size / k)[1]) + rest * log(interval((1 - q) * size / rest)[1])
    logs += log(interval(Fraction(size, 6 * k * rest) / (1 - falls) ** 2)[1]) + 1 >> 1
    return exp(max(logs, -B << B))[1]

def profile(mechanism, distance, grid):  # a mechanism that is not Gaussian, whose neighbors are so far apart [8]
    kind, first, *more = mechanism.values()
    if kind in ("laplace", "bounded-range", "discrete-gaussian", "discrete-laplace"):
        size, first = whole(*listed(grid, 1, 1), 1, MAX_CELLS), positive(first)
        if more:
            exponent = (lambda k: k * k / (2 * first * first)) if kind == "discrete-gaussian" else lambda k: k / first
            return integer_noise(exponent, distance * whole(*more, 1, MAX_CELLS), size)
        most = interval(distance / first if kind == "laplace" else distance * first)[1]
        losses = [(2 * i - size) * most // size for i in range(size + 1)]
        points = [(exp(loss)[1], ONE - exp(loss - most >> 1)[0]) for loss in losses]
        return points if kind == "laplace" else [(x, ceil(y * y, ONE - exp(-most)[1])) for x, y in points]
    need(kind == "zcdp" or not grid, "a grid is malformed")
    if kind == "zcdp": points = [concentrated(first, loss) for loss in edges_of(grid)]
    elif kind == "approximate":
        *grown, most = (exp(interval(j * number(first))[1])[1] for j in range(distance + 1))
        points = [(most, mul(sum(grown), interval(number(*more))[1]))]
    else:
        flip, k = positive(first), whole(*more, 2, 1 << 52)
        need(flip <= 1, "a probability must be at most 1")
        points = [(ONE, interval(1 - flip)[1]), (interval(1 + k * (1 - flip) / flip)[1], 0)]
    return points + mirror(points)

# --- From a profile to the distribution of the privacy loss. A ray (mass, x) is mass of Q where P / Q is x ------------

def mirror(points):  # the profile of Q against P: 1 - 1/x + y/x at 1/x [11]
    return [(ceil(ONE << B, x), ONE - ((ONE - y << B) // x)) for x, y in points]

def rays_of(points):  # of the lower hull of (0, 1) and the points; and the mass that P alone has [11]
    hull = [(0, ONE)]
    for x, y in sorted(points):
        if y < hull[-1][1]:
            while len(hull) > 1 and not is_bent(*hull[-2:], (x, y)): hull.pop()
            hull.append((x, y))
    lost = hull[-1][1]
    falls = [(y - v, u - x) for (x, y), (u, v) in pairwise([*hull, (hull[-1][0] + 1, lost)])]
    return [(ceil(f * h - g * e << B, e * h), x) for ((f, e), (g, h)), (x, _) in zip(pairwise(falls), hull[1:])], lost

def is_bent(a, b, c): return (a[1] - b[1]) * (c[0] - b[0]) > (b[1] - c[1]) * (b[0] - a[0])

def points_of(rays, lost):  # the profile of rays: beyond x, the mass of P less x times that of Q [11]
    mass = moment = 0
    for m, x in sorted(rays, key=lambda ray: -ray[1]):
        yield x, lost + ceil(moment - mass * x, ONE)
        mass, moment = mass + m, moment + m * x

def together(a, b):  # two releases on one sample: all products; of points that are close the highest is kept [12]
    (a, lost), (b, more) = rays_of(a), rays_of(b)
    spend(2 * len(a) * len(b) * (B + 400))
    points = points_of([(mul(m, n), mul(x, y)) for m, x in a for n, y in b], lost + more)
    digits = 13 - (len(a) * len(b)).bit_length() // 3  # by which they differ
    return {(x.bit_length(), x >> max(B, x.bit_length()) - digits): (x, y) for x, y in sorted(points)}.values()

def distribution(parts, q, way, grids):  # losses of one release with masses, and the mass of an infinite loss
    points = reduce(together, [part(listed(next(grids), 0, MAX_CELLS)) for part in parts])
    if q < 1:  # (1-q) Q + q P against Q has q y at 1 - q + q x [12]
        n, d = q.numerator, q.denominator
        points = [(ceil((d - n) * ONE + n * x, d), ceil(n * y, d)) for x, y in [(0, ONE), *points]]
        if way is None:  # a fixed size: units are replaced, so neighbors may change places
            points = [point for point in points if point[0] >= ONE]
            points += mirror(points)
    rays, lost = rays_of(mirror(points) if way == "add" else points)
    return [(mul(mass, x), log(x)) for mass, x in rays], lost

# --- Composition ------------------------------------------------------------------------------------------------------

def times(a, b):  # (re, im, off): complex numbers of modulus at most 1, known within `off` units [13]
    off = a[2] + b[2] + (a[2] * b[2] >> B) + 3
    need(off < ONE, "rounding outweighs the sum")
    return a[0] * b[0] - a[1] * b[1] >> B, a[0] * b[1] + a[1] * b[0] >> B, off

def power(x, count):
    if count == 1: return x
    half = power(x, count >> 1)
    return times(times(half, half), x) if count & 1 else times(half, half)

def compose(laws, epsilon, delta, t, s, v, terms):  # an inversion integral [14]; tilt t, step s, smoothing v: times D
    spend(terms * sum(8 * count.bit_length() for _, count in laws) * (B + 400) >> 2)
    rest, height, parts, phase, line = t * (t + D), 0, [], (ONE, 0), ONE
    for law, count in laws:
        points = [(mul(mass, exp(-(-t * loss >> 30))[1]), 0) for mass, loss in law]  # from here on this is the law
        total = sum(weight for weight, _ in points)
        spend(terms * len(law) * (max(B, total.bit_length()) + 400) >> 2)
        height += count * log(total)
        parts.append([points, [turn(s * loss, B + 30) for _, loss in law], total, count])
    height += ceil(v << B, 2 * D) - interval(epsilon * Fraction(t, D))[0] + log(interval(1 / delta)[1])
    spin = turn(interval(Fraction(s, D) * (epsilon - Fraction(v * (2 * t + D), 2 * rest)))[0], B)
    for m in range(1, terms + 1):
        here = ONE, 0, 0
        for part in parts:
            points, turns, total, count = part
            part[0] = points = [(a * c - b * d >> B, a * d + b * c >> B) for (a, b), (c, d) in zip(points, turns)]
            off = m * (2 * total + (4 * len(points) << B)) // total + 4
            mean = (sum(a for a, _ in points) << B) // total, (sum(b for _, b in points) << B) // total, off
            here = times(here, power(mean, count))
        phase, w = times((*phase, 0), (spin[0], -spin[1], 0))[:2], m * s
        re, im, off = times(here, (*phase, 8 * m))
        zr, zi = rest - w * w, w * (2 * t + D)  # z (z + 1) for z = t + i w, times D^2
        value = (re * zr + im * zi) * rest // (zr * zr + zi * zi) + off + 2
        bell = exp_between(-ceil(v * w * w << B, 2 * D * rest), -((v * w * w << B) // (2 * D * rest)))
        line += 2 * (mul(value, bell[1]) if value > 0 else value * bell[0] >> B) + 2
    tail = mul(bell[1], ceil(2 * rest << B, w * D))
    bound = mul(mul(exp(height)[1], ceil(D * D << B, rest)), mul(ceil(s << B, D), line) + tail)
    return ceil(bound * (DENSITY + 1) ** 2, 1 << 2048)  # over 2 pi

def bound_delta(laws, lost, epsilon, delta, hints):  # delta(epsilon) / delta is at most this
    low, most = interval(epsilon)[0], sum(max((loss for _, loss in law), default=0) * count for law, count in laws)
    need(delta or most <= low and not lost, "a loss exceeds epsilon")
    if most <= low: return lost
    if sum(count for _, count in laws) == 1:  # a plain sum
        found = sum(mul(mass, max(0, ONE - (exp(low)[0] << B) // exp(loss)[1])) for mass, loss in laws[0][0])
        return ceil(found * delta.denominator, delta.numerator) + lost
    return compose(laws, epsilon, delta, *need(hints, "the proof has no line")) + lost

# --- The document -----------------------------------------------------------------------------------------------------

def number(x):  # that all languages read alike
    return Fraction(need(re.fullmatch(r"[0-9]{1,40}(\.[0-9]{1,60})?(e-?[0-9]{1,3})?", x), "a number is malformed")[0])

def positive(text): return need(number(text), "a number must be above 0")

def whole(x, low, high): return need(type(x) is int and low <= x <= high, "an integer is missing or out of bounds", x)

def listed(value, least, most):
    return need(type(value) is list and least <= len(value) <= most, "a list is missing, too short or too long", value)

def fields(value, *names):
    same = type(value) is dict and list(value) == [*names]
    return need(same, f"an object must have the keys {', '.join(names)}, in order", value).values()

def edges_of(grid):  # [bits, start, width, count, ...]: a start and runs of equal widths, in units of 2^-bits
    need(len(grid) > 3 and len(grid) % 2 == 0, "a grid is malformed")
    bits, start, *runs = (whole(x, -(1 << 52), 1 << 52) for x in grid)
    need(0 <= bits <= 40 and min(runs) > 0 and sum(runs[1::2]) < MAX_CELLS, "a grid is malformed")
    widths = (width for width, count in zip(runs[::2], runs[1::2]) for _ in range(count))
    return [x << B - bits for x in accumulate(widths, initial=start)]

def read_releases(releases, relation, group):  # as (parts, q, bent, count), bent where removing is unlike adding; cut
    found, joint, rho, cut, one, replaced = [], 0, 0, 0, Fraction(1), relation == "replace-one"
    vague = STATEMENTS if relation == "zero-out" else ["zcdp"]  # do not say what is released without the unit
    for release in listed(releases, 1, 1000):
        mechanisms, poisson, count = fields(release, "mechanisms", "poisson", "count")
        fixed = re.fullmatch("([0-9]{1,15}) of ([0-9]{1,15})", poisson)
        limit = re.fullmatch("([^ ]+), at most ([0-9]{1,15}) of ([0-9]{1,15})", poisson)
        q = positive(fixed[1]) / positive(fixed[2]) if fixed else positive(limit[1] if limit else poisson)
        square, others, count = 0, [], whole(count, 1, 10**9)
        need(q <= 1, "a probability must be at most 1")
        need(replaced or not fixed, "not covered: a sample of a fixed size under this relation")
        distance = group * (1 + replaced) if q == 1 or fixed else 1
        if limit: cut += count * cut_chance(q, int(limit[2]), int(limit[3]))
        for mechanism in listed(mechanisms, 1, 16):
            need(type(mechanism) is dict and mechanism.get("type") in [*MECHANISMS], "not covered: such a mechanism")
            kind, first, *_ = fields(mechanism, "type", *MECHANISMS[mechanism["type"]])
            fit = group == 1 and kind not in vague and (fixed or not replaced)
            need(q == 1 or fit or kind == "gaussian" and (group == 1 or not replaced), "not covered: such a sample")
            need(kind != "randomized-response" or replaced and group == 1, "not covered: such randomized response")
            if kind == "gaussian": square += interval((distance / positive(first)) ** 2)[1]
            elif kind == "gdp": square += interval((group * positive(first)) ** 2)[1]
            elif kind == "zcdp": rho += interval(count * group**2 * positive(first))[1]
            else: others.append(partial(profile, mechanism, group if kind in STATEMENTS else distance))
        if q == 1:
            joint += count * square
            found += [([other], one, False, count) for other in others]
        elif others or fixed: found.append(([gaussian_of(square)] * (square > 0) + others, q, not fixed, count))
        else: found.append(([gaussian_of(square, q, group, replaced)], one, not replaced, count))
    found[:0] = [([partial(profile, {"type": "zcdp", "rho": rho}, 1)], one, False, 1)] * (rho > 0)  # as one [10]
    return [([gaussian_of(joint)], one, False, 1)] * (joint > 0) + found, cut  # as one [15]

def check(certificate):  # bounds delta at the claimed epsilon over the claimed delta; sets B
    global B, ONE, work
    form, claim, proof = fields(certificate, "format", "claim", "proof")
    epsilon, delta, relation, group, releases = fields(claim, "epsilon", "delta", "relation", "group", "releases")
    bits, lines = fields(proof, "bits", "lines")
    need(form == "dp-certificate/1", "the format is not dp-certificate/1")
    need(relation in ["add-or-remove-one", "zero-out", "replace-one"], "not covered: this relation")
    B, work, worst = whole(bits, 64, MAX_BITS), 0, 0
    ONE, epsilon, delta = 1 << B, number(epsilon), number(delta)
    inverse = 1 / delta if need(delta < 1, "delta must be below 1") and delta else Fraction(1)
    releases, cut = read_releases(releases, relation, whole(group, 1, 1000))
    cut = cut and mul(cut, ONE + exp(interval(epsilon)[1])[1])  # what cut samples add to delta [16]
    ways = ("remove", "add") if any(bent for _, _, bent, _ in releases) else (None,)
    for way, line in zip(ways, listed(lines, len(ways), len(ways))):
        grids, *hints = listed(line, 1, 5)
        need(len(hints) in (0, 4) and all(whole(x, 1, 1 << 52) for x in hints), "a line is malformed")
        whole([1, *hints][-1], 1, MAX_TERMS)
        size = sum(len(parts) for parts, *_ in releases)
        grids, laws, infinite = iter(listed(grids, size, size)), [], cut
        for parts, q, bent, count in releases:
            law, lost = distribution(parts, q, way if bent else None, grids)
            laws, infinite = [*laws, (law, count)], infinite + count * lost
        worst = max(worst, bound_delta(laws, mul(infinite, interval(inverse)[1]), epsilon, delta, hints))
    return worst

def judge(content):  # whether a certificate proves its claim, and a line that says so or why not
    try:
        need(len(content) <= MAX_BYTES, f"the file is larger than {MAX_BYTES} bytes")
        text = content.decode("ascii").removesuffix("\n")
        certificate = json.loads(text)
        need(json.dumps(certificate, separators=(",", ":")) == text, "the text has blanks, a key twice or other forms")
        bound, claim = check(certificate), certificate["claim"]
    except Exception as problem:  # nothing is proven, whatever went wrong
        return False, f"REFUSED: {problem if type(problem) is Refused else 'it cannot be read'}"
    said = f"delta is at most {ceil(10**6 * bound, ONE)} millionths of the claimed {claim['delta']} ({bound:x})"
    return bound <= ONE, f"{'PROVEN' if bound <= ONE else 'REFUSED'}: at epsilon {claim['epsilon']} {said}"

if __name__ == "__main__":
    proven, said = judge(open(sys.argv[1], "rb").read(MAX_BYTES + 1))
    print(said)
    sys.exit(0 if proven else 1)
