// Check a certificate that a composition of releases is (epsilon, delta)-differentially private.

//     go run dp_certificate.go FILE       prints PROVEN or REFUSED; the exit status is 0 only if the claim is proven

// The twin of dp_certificate.py, function by function; see the comments there. It needs the standard library only and
// computes with integers: x stands for x / 2^B. All checkers give the same verdict and the same integer.
// SPDX-License-Identifier: 0BSD (copy, change and share it, with or without this notice; there is no warranty)
package main

import ("fmt"; "io"; "math/big"; "os"; "regexp"; "sort"; "strconv"; "strings")

type Int = *big.Int
type pair [2]Int    // an interval (lower, upper), a fraction (numerator, denominator), a point (x, y), a ray (mass, x)
type number3 [3]Int // a complex number (re, im) that is known within `off`
type refused string // why nothing is proven
type law struct { parts []pair; count Int }
type part func(grid []any) []pair
type release struct { parts []part; q pair; bent bool; count Int }
type object struct { keys []string; values []any }

const GUARD, MAX_BYTES, MAX_BITS, MAX_CELLS, MAX_TERMS = 64, 1 << 16, 1024, 20000, 20000
const MAX_WORK, MOST = 1 << 29, 1 << 52

var zero, one, D = num(0), num(1), num(1 << 30)
var DENSITY, _ = new(big.Int).SetString("662114cf50d942343f2cf1402eae38bfd3829f30512706d8c0471b4802639d2e9df8ac55447d" +
	"3db723f5d3abb374e88deb14277970be1513278e993445f08cff98282e1fd947ce4b4ecdbd6e65c23395cacb544de69eea32c276937b1bc5" +
	"67691c1cec4882c77aacefe1f6708329ab3fc8d2ab2435ee45c9150c426bbb49487e", 16)
var MECHANISMS = map[string][]string{
	"gaussian": {"noise_multiplier"}, "laplace": {"noise_multiplier"}, "gdp": {"mu"}, "bounded-range": {"range"},
	"randomized-response": {"flip_probability", "categories"}, "approximate": {"epsilon", "delta"}, "zcdp": {"rho"},
	"discrete-gaussian": {"noise_scale", "sensitivity"}, "discrete-laplace": {"noise_scale", "sensitivity"}}
var B, ONE, work = uint(0), zero, zero

func need(fact bool, reason string) { if !fact { panic(refused(reason)) } }
func spend(amount Int) { work = add(work, amount); need(!less(num(MAX_WORK), work), "the check would take too long") }
func max(a, b int) int { if a > b { return a }; return b }
func each[A, B any](list []A, f func(A) B) (all []B) { for _, x := range list { all = append(all, f(x)) }; return all }
func among(x string, list ...string) bool { for _, y := range list { if x == y { return true } }; return false }

// --- Numbers and functions -----------------------------------------------------------------------------------------

func num(n int64) Int { return big.NewInt(n) }
func add(a, b Int) Int { return new(big.Int).Add(a, b) }
func sub(a, b Int) Int { return new(big.Int).Sub(a, b) }
func neg(a Int) Int { return new(big.Int).Neg(a) }
func prod(a Int, more ...Int) Int { for _, b := range more { a = new(big.Int).Mul(a, b) }; return a }
func pow(a Int, n int64) Int { return new(big.Int).Exp(a, num(n), nil) }
func shl(a Int, n uint) Int { return new(big.Int).Lsh(a, n) }
func shr(a Int, n uint) Int { return new(big.Int).Rsh(a, n) } // rounded down
func less(a, b Int) bool { return a.Cmp(b) < 0 }
func bits(a Int) int { return a.BitLen() }
func largest(a, b Int) Int { if less(a, b) { return b }; return a }
func floor(a, b Int) Int { need(b.Sign() > 0, "a number is out of bounds"); return new(big.Int).Div(a, b) }
func ceil(a, b Int) Int { return neg(floor(neg(a), b)) }
func size(k int64) int64 { if k < 0 { return -k }; return k }
func up(a Int, n uint) Int { return neg(shr(neg(a), n)) }
func mul(a, b Int) Int { return up(prod(a, b), B) } // rounded up
func interval(f pair) pair { return pair{floor(shl(f[0], B), f[1]), ceil(shl(f[0], B), f[1])} }
func inverse(f pair) pair { return pair{f[1], f[0]} }
func expBetween(low, high Int) pair { return pair{exp(low)[0], exp(high)[1]} }
func ratio(p, q pair) pair {
	need(q[0].Sign() > 0, "there are too few bits")
	return pair{floor(shl(p[0], B), q[1]), ceil(shl(p[1], B), q[0])} }
func dot(weights, values []pair) pair {
	low, high := zero, zero
	for i, w := range weights { low, high = add(low, prod(w[0], values[i][0])), add(high, mul(w[1], values[i][1])) }
	return pair{shr(low, B), high} }

func exp(x Int) pair {
	if x.Sign() < 0 { return ratio(pair{ONE, ONE}, exp(neg(x))) }
	k, unit := max(0, bits(x)-int(B)+12), B+GUARD
	need(k <= 25, "an exponent is too large")
	spend(num(int64(B+400)*int64(B+400)>>6 + int64(1)<<k>>9))
	y, low := shl(x, uint(GUARD-k)), shl(one, unit)
	for n := int64(unit/12 + 1); n > 0; n-- { low = add(shl(one, unit), floor(shr(prod(low, y), unit), num(n))) }
	high := add(low, num(4))
	for ; k > 0; k-- { low, high = shr(prod(low, low), unit), up(prod(high, high), unit) }
	return pair{shr(low, GUARD), up(high, GUARD)} }

func log(x Int) Int {
	need(x.Sign() > 0, "the logarithm of 0 is needed")
	y, change, step := floor(shl(num(int64(bits(x)-int(B))*693147), B), num(1000000)), ONE, num(1<<8)
	for shr(new(big.Int).Abs(change), B-B/3).Sign() > 0 {
		e := exp(y)[0]
		change = floor(shl(prod(num(2), sub(x, e)), B), add(x, e))
		y = add(y, change) }
	for less(exp(y)[0], x) { y, step = add(y, step), prod(num(4), step) }
	return y }

func phi(x Int) pair {
	t, n, density, half := new(big.Int).Abs(x), int64(1), shr(DENSITY, 1024-B), shr(ONE, 1)
	low2, high2 := shr(prod(t, t), B), mul(t, t)
	spend(num(int64(B+400) * int64(B+400) >> 4))
	p := pair{sub(half, one), half}
	if !less(num(2*int64(B)), shr(low2, B)) {
		low, high, sumLow, sumHigh := t, t, t, t
		for less(one, high) || less(shl(num(n+2), B), prod(num(2), high2)) {
			n += 2
			low, high = floor(prod(low, low2), shl(num(n), B)), ceil(prod(high, high2), shl(num(n), B))
			sumLow, sumHigh = add(sumLow, low), add(sumHigh, high) }
		p[0] = floor(prod(sumLow, density), exp(shr(add(high2, one), 1))[1])
		p[1] = ceil(prod(add(sumHigh, high), add(density, one)), exp(shr(low2, 1))[0])
		if less(half, p[1]) { p[1] = half } }
	if x.Sign() > 0 { return pair{add(half, p[0]), add(half, p[1])} }
	return pair{sub(half, p[1]), sub(half, p[0])} }

func turn(angle Int, scale uint) pair {
	k, unit := uint(max(0, bits(angle)-int(scale)+12)), B+GUARD
	need(k <= 44, "an angle is too large")
	y, re, im := shr(shl(angle, unit), scale+k), shl(one, unit), zero
	for n := int64(unit/12 + 1); n > 0; n-- {
		re, im = sub(shl(one, unit), floor(shr(prod(im, y), unit), num(n))), floor(shr(prod(re, y), unit), num(n)) }
	for ; k > 0; k-- { re, im = shr(sub(prod(re, re), prod(im, im)), unit), shr(prod(num(2), re, im), unit) }
	return pair{shr(re, GUARD), shr(im, GUARD)} }

// --- Points (x, y) of privacy profiles -----------------------------------------------------------------------------

func normals(means []Int, pWeights, qWeights []pair, edges []Int, least pair) []pair {
	points := []pair{{least[1], sub(ONE, least[0])}}
	for _, x := range edges {
		heights, above := []pair{}, []pair{}
		for _, mean := range means {
			y := shr(prod(mean, sub(prod(num(2), x), mean)), B+1)
			heights, above = append(heights, expBetween(y, add(y, one))), append(above, phi(sub(mean, x))) }
		at := ratio(dot(pWeights, heights), dot(qWeights, heights))
		points = append(points, pair{at[1], sub(dot(pWeights, above)[1], shr(prod(at[0], dot(qWeights, above)[0]), B))}) }
	return points }

func gaussianOf(square Int, q pair, group int64, replaced bool) part {
	return func(grid []any) []pair {
		mu, edges, none := add(new(big.Int).Sqrt(shl(square, B)), one), edgesOf(grid), pair{zero, zero}
		rest, share := interval(pair{sub(q[1], q[0]), q[1]}), interval(q)
		if replaced {
			return normals([]Int{zero, mu, neg(mu)}, []pair{rest, share, none}, []pair{rest, none, share}, edges, none) }
		spend(shr(prod(num(group), num(group), num(group), num(int64(B)+400)), 3))
		means, pWeights, qWeights, drop := []Int{}, []pair{}, []pair{}, B*uint(group-1)
		for j := int64(0); j <= group; j++ {
			choices, weight := new(big.Int).Binomial(group, j), pair{}
			for i := range weight { weight[i] = prod(choices, pow(share[i], j), pow(rest[i], group-j)) }
			means, qWeights = append(means, prod(num(j), mu)), append(qWeights, none)
			pWeights = append(pWeights, pair{shr(weight[0], drop), up(weight[1], drop)}) }
		qWeights[0] = pair{ONE, ONE}
		return normals(means, pWeights, qWeights, edges, pWeights[0]) } }

func integerNoise(exponent func(k int64) pair, shift, reach int64) []pair {
	need(shift < reach, "a grid is malformed")
	weights, chances, rays, total, lost := []pair{}, []Int{}, []pair{}, zero, zero
	for k := int64(0); k <= reach; k++ {
		e := interval(exponent(k))
		weights = append(weights, expBetween(neg(e[1]), neg(e[0])))
		total = add(total, prod(num(2), weights[k][0])) }
	last, next := exponent(reach), exponent(reach+1) // over the same denominator
	falls, total := exp(neg(interval(pair{sub(next[0], last[0]), last[1]})[0]))[1], sub(total, weights[0][0])
	need(less(falls, ONE), "there are too few bits")
	for _, weight := range weights { chances = append(chances, ceil(shl(weight[1], B), total)) }
	lost = prod(num(2), ceil(shl(ceil(prod(weights[reach][1], falls), sub(ONE, falls)), B), total))
	for _, chance := range chances[reach-shift+1:] { lost = add(lost, chance) }
	for k := shift - reach; k <= reach; k++ {
		rays = append(rays, pair{chances[size(k)], ratio(weights[size(k-shift)], weights[size(k)])[1]}) }
	return pointsOf(rays, lost) }

func concentrated(rho, loss Int) pair {
	root := new(big.Int).Sqrt(add(prod(loss, loss), shl(rho, B+3)))
	order := add(largest(ONE, floor(shl(add(loss, root), B), prod(num(4), rho))), shr(ONE, 1))
	less1 := sub(order, ONE)
	logs := add(mul(less1, log(less1)), mul(order, log(ceil(shl(ONE, B), order))))
	return pair{exp(loss)[1], exp(add(mul(less1, sub(mul(order, rho), loss)), logs))[1]} }

func cutChance(q pair, most, all Int) Int {
	n, d, k := q[0], q[1], add(most, one)
	rest, m := sub(all, k), sub(d, n)
	a, b := prod(m, add(k, one)), prod(n, rest)
	need(rest.Sign() > 0 && less(b, a), "not covered: such a cut of samples")
	logs := prod(k, log(interval(pair{prod(n, all), prod(d, k)})[1]))
	logs = add(logs, prod(rest, log(interval(pair{prod(m, all), prod(d, rest)})[1])))
	more := interval(pair{prod(all, a, a), prod(num(6), k, rest, sub(a, b), sub(a, b))})[1]
	return exp(largest(add(logs, shr(add(log(more), one), 1)), neg(shl(num(int64(B)), B))))[1] }

func profile(kind string, values []any, distance int64, grid []any) []pair {
	far, points := num(distance), []pair{}
	if among(kind, "laplace", "bounded-range", "discrete-gaussian", "discrete-laplace") {
		cells, f := whole(listed(grid, 1, 1)[0], 1, MAX_CELLS), positive(values[0])
		if len(values) == 2 {
			exponent := func(k int64) pair { return pair{prod(num(k), f[1]), f[0]} }
			if kind == "discrete-gaussian" {
				exponent = func(k int64) pair { return pair{prod(num(k*k), f[1], f[1]), prod(num(2), f[0], f[0])} } }
			return integerNoise(exponent, distance*whole(values[1], 1, MAX_CELLS), cells) }
		if kind == "laplace" { f = inverse(f) }
		most := interval(pair{prod(far, f[0]), f[1]})[1]
		for i := int64(0); i <= cells; i++ {
			loss := floor(prod(num(2*i-cells), most), num(cells))
			x, y := exp(loss)[1], sub(ONE, exp(shr(sub(loss, most), 1))[0])
			if kind != "laplace" { y = ceil(prod(y, y), sub(ONE, exp(neg(most))[1])) }
			points = append(points, pair{x, y}) }
		return points }
	need(len(grid) == 0, "a grid is malformed")
	if kind == "approximate" {
		f, grown := number(values[0]), zero
		for j := int64(0); j < distance; j++ { grown = add(grown, exp(interval(pair{prod(num(j), f[0]), f[1]})[1])[1]) }
		points = []pair{{exp(interval(pair{prod(far, f[0]), f[1]})[1])[1], mul(grown, interval(number(values[1]))[1])}}
	} else {
		n, d, k := positive(values[0])[0], positive(values[0])[1], num(whole(values[1], 2, MOST))
		need(!less(d, n), "a probability must be at most 1")
		points = []pair{{ONE, interval(pair{sub(d, n), d})[1]}, {interval(pair{add(n, prod(k, sub(d, n))), n})[1], zero}} }
	return append(points, mirror(points)...) }

// --- From a profile to the distribution of the privacy loss. A ray (mass, x) is mass of Q where P / Q is x ---------

func mirror(points []pair) []pair {
	return each(points, func(p pair) pair {
		return pair{ceil(shl(ONE, B), p[0]), sub(ONE, floor(shl(sub(ONE, p[1]), B), p[0]))} }) }

func isBent(a, b, c pair) bool {
	return less(prod(sub(b[1], c[1]), sub(b[0], a[0])), prod(sub(a[1], b[1]), sub(c[0], b[0]))) }

func raysOf(points []pair) (rays []pair, lost Int) {
	points, hull := append([]pair{}, points...), []pair{{zero, ONE}}
	sort.Slice(points, func(i, j int) bool {
		order := points[i][0].Cmp(points[j][0])
		return order < 0 || order == 0 && less(points[i][1], points[j][1]) })
	for _, p := range points {
		if less(p[1], hull[len(hull)-1][1]) {
			for len(hull) > 1 && !isBent(hull[len(hull)-2], hull[len(hull)-1], p) { hull = hull[:len(hull)-1] }
			hull = append(hull, p) } }
	end := hull[len(hull)-1]
	hull = append(hull, pair{add(end[0], one), end[1]})
	for i := 1; i < len(hull)-1; i++ {
		a, b, c := hull[i-1], hull[i], hull[i+1]
		f, e, g, h := sub(a[1], b[1]), sub(b[0], a[0]), sub(b[1], c[1]), sub(c[0], b[0])
		rays = append(rays, pair{ceil(shl(sub(prod(f, h), prod(g, e)), B), prod(e, h)), b[0]}) }
	return rays, end[1] }

func pointsOf(rays []pair, lost Int) (points []pair) {
	mass, moment := zero, zero
	sort.SliceStable(rays, func(i, j int) bool { return less(rays[j][1], rays[i][1]) })
	for _, ray := range rays {
		points = append(points, pair{ray[1], add(lost, ceil(sub(moment, prod(mass, ray[1])), ONE))})
		mass, moment = add(mass, ray[0]), add(moment, prod(ray[0], ray[1])) }
	return points }

func together(first, second []pair) []pair {
	a, lost := raysOf(first)
	b, more := raysOf(second)
	spend(prod(num(2), num(int64(len(a))*int64(len(b))), num(int64(B)+400)))
	rays, points, seen, digits := []pair{}, []pair{}, map[string]bool{}, 13-bits(num(int64(len(a)*len(b))))/3
	for _, m := range a { for _, n := range b { rays = append(rays, pair{mul(m[0], n[0]), mul(m[1], n[1])}) } }
	for _, p := range pointsOf(rays, add(lost, more)) { // from the highest on
		key := fmt.Sprint(bits(p[0]), shr(p[0], uint(max(int(B), bits(p[0]))-digits)))
		if !seen[key] { points, seen[key] = append(points, p), true } }
	return points }

func distribution(r release, way string, grids *[]any) (law, Int) {
	n, d, points, sampled := r.q[0], r.q[1], []pair{}, []pair{}
	for i, make := range r.parts {
		found := make(listed((*grids)[i], 0, MAX_CELLS))
		if i > 0 { found = together(points, found) }
		points = found }
	*grids = (*grids)[len(r.parts):]
	if less(n, d) {
		for _, p := range append([]pair{{zero, ONE}}, points...) {
			p = pair{ceil(add(prod(sub(d, n), ONE), prod(n, p[0])), d), ceil(prod(n, p[1]), d)}
			if r.bent { sampled = append(sampled, p)
			} else if !less(p[0], ONE) { sampled = append(append(sampled, p), mirror([]pair{p})...) } }
		points = sampled }
	if r.bent && way == "add" { points = mirror(points) }
	rays, lost := raysOf(points)
	return law{each(rays, func(ray pair) pair { return pair{mul(ray[0], ray[1]), log(ray[1])} }), r.count}, lost }

// --- Composition ---------------------------------------------------------------------------------------------------

func times(a, b number3) number3 {
	off := add(add(a[2], b[2]), add(shr(prod(a[2], b[2]), B), num(3)))
	need(less(off, ONE), "rounding outweighs the sum")
	return number3{shr(sub(prod(a[0], b[0]), prod(a[1], b[1])), B), shr(add(prod(a[0], b[1]), prod(a[1], b[0])), B), off} }

func power(x number3, count Int) number3 {
	if count.Cmp(one) == 0 { return x }
	half := power(x, shr(count, 1))
	if count.Bit(0) == 1 { return times(times(half, half), x) }
	return times(half, half) }

func compose(laws []law, epsilon, delta pair, hints []Int) Int {
	t, s, v, terms := hints[0], hints[1], hints[2], hints[3]
	cost, rest, height, large := int64(0), prod(t, add(t, D)), zero, num(int64(B)+400)
	for _, law := range laws { cost += 8 * int64(bits(law.count)) }
	spend(shr(prod(terms, num(cost), large), 2))
	points, turns, totals := make([][]pair, len(laws)), make([][]pair, len(laws)), make([]Int, len(laws))
	shift, twice := prod(num(2), D, rest), add(prod(num(2), t), D)
	for i, law := range laws {
		total := zero
		for _, p := range law.parts {
			w := mul(p[0], exp(neg(shr(neg(prod(t, p[1])), 30)))[1])
			points[i], total = append(points[i], pair{w, zero}), add(total, w) }
		spend(shr(prod(terms, num(int64(len(law.parts))), add(largest(num(int64(B)), num(int64(bits(total)))), num(400))), 2))
		for _, p := range law.parts { turns[i] = append(turns[i], turn(prod(s, p[1]), B+30)) }
		height, totals[i] = add(height, prod(law.count, log(total))), total }
	height = add(add(height, ceil(shl(v, B), prod(num(2), D))), log(interval(inverse(delta))[1]))
	height = sub(height, interval(pair{prod(epsilon[0], t), prod(epsilon[1], D)})[0])
	at := prod(s, sub(prod(epsilon[0], num(2), rest), prod(epsilon[1], v, twice)))
	spin := turn(interval(pair{at, prod(epsilon[1], shift)})[0], B)
	phase, line, bell := number3{ONE, zero, zero}, ONE, pair{}
	for m := int64(1); m <= terms.Int64(); m++ {
		here := number3{ONE, zero, zero}
		for i, law := range laws {
			re, im := zero, zero
			for j, p := range points[i] {
				c, d := turns[i][j][0], turns[i][j][1]
				p = pair{shr(sub(prod(p[0], c), prod(p[1], d)), B), shr(add(prod(p[0], d), prod(p[1], c)), B)}
				points[i][j], re, im = p, add(re, p[0]), add(im, p[1]) }
			off := prod(num(m), add(prod(num(2), totals[i]), shl(num(int64(4*len(points[i]))), B)))
			off = add(floor(off, totals[i]), num(4))
			here = times(here, power(number3{floor(shl(re, B), totals[i]), floor(shl(im, B), totals[i]), off}, law.count)) }
		phase = times(number3{phase[0], phase[1], zero}, number3{spin[0], neg(spin[1]), zero})
		x, w := times(here, number3{phase[0], phase[1], num(8 * m)}), prod(num(m), s)
		zr, zi, fall := sub(rest, prod(w, w)), prod(w, twice), shl(prod(v, w, w), B)
		value := floor(prod(add(prod(x[0], zr), prod(x[1], zi)), rest), add(prod(zr, zr), prod(zi, zi)))
		value = add(value, add(x[2], num(2)))
		bell = expBetween(neg(ceil(fall, shift)), neg(floor(fall, shift)))
		if value.Sign() > 0 { value = mul(value, bell[1]) } else { value = shr(prod(value, bell[0]), B) }
		line = add(line, add(prod(num(2), value), num(2))) }
	tail := mul(bell[1], ceil(shl(prod(num(2), rest), B), prod(terms, s, D)))
	bound := mul(mul(exp(height)[1], ceil(shl(prod(D, D), B), rest)), add(mul(ceil(shl(s, B), D), line), tail))
	return up(prod(bound, pow(add(DENSITY, one), 2)), 2048) }

func boundDelta(laws []law, lost Int, epsilon, delta pair, hints []Int) Int {
	low, most, count, found := interval(epsilon)[0], zero, zero, zero
	for _, law := range laws {
		top := zero
		for i, p := range law.parts { if i == 0 || less(top, p[1]) { top = p[1] } }
		most, count = add(most, prod(law.count, top)), add(count, law.count) }
	need(delta[0].Sign() > 0 || !less(low, most) && lost.Sign() == 0, "a loss exceeds epsilon")
	if !less(low, most) { return lost }
	if count.Cmp(one) == 0 {
		for _, p := range laws[0].parts {
			found = add(found, mul(p[0], largest(zero, sub(ONE, floor(shl(exp(low)[0], B), exp(p[1])[1]))))) }
		return add(ceil(prod(found, delta[1]), delta[0]), lost) }
	need(len(hints) > 0, "the proof has no line")
	return add(compose(laws, epsilon, delta, hints), lost) }

// --- The document --------------------------------------------------------------------------------------------------

var FORM = regexp.MustCompile(`^([0-9]{1,40})(?:\.([0-9]{1,60}))?(?:e(-?[0-9]{1,3}))?$`)
var SAMPLE = regexp.MustCompile(`^(?:([^ ]+), at most )?([0-9]{1,15}) of ([0-9]{1,15})$`)

func number(value any) pair {
	text, _ := value.(string)
	m := FORM.FindStringSubmatch(text)
	need(m != nil, "a number is malformed")
	top, _ := new(big.Int).SetString(m[1]+m[2], 10)
	e, _ := strconv.ParseInt(m[3], 10, 64) // 0 without an exponent
	if e -= int64(len(m[2])); e >= 0 { return pair{prod(top, pow(num(10), e)), one} }
	return pair{top, pow(num(10), -e)} }
func positive(value any) pair { f := number(value); need(f[0].Sign() > 0, "a number must be above 0"); return f }
func whole(value any, least, most int64) int64 {
	x, is := value.(int64)
	need(is && least <= x && x <= most, "an integer is missing or out of bounds")
	return x }
func listed(value any, least, most int) []any {
	x, is := value.([]any)
	need(is && least <= len(x) && len(x) <= most, "a list is missing, too short or too long")
	return x }
func fields(value any, names ...string) []any {
	x, is := value.(object)
	same := is && strings.Join(x.keys, ",") == strings.Join(names, ",")
	need(same, "an object must have the keys "+strings.Join(names, ", ")+", in order")
	return x.values }

func edgesOf(grid []any) []Int {
	need(len(grid) > 3 && len(grid)%2 == 0, "a grid is malformed")
	at, cells, scale := whole(grid[1], -MOST, MOST), int64(0), whole(grid[0], 0, 40)
	found := []Int{num(at)}
	for i := 2; i < len(grid); i += 2 {
		width, count := whole(grid[i], 1, MOST), whole(grid[i+1], 1, MAX_CELLS)
		cells += count
		need(cells < MAX_CELLS, "a grid is malformed")
		for ; count > 0; count-- { found = append(found, add(found[len(found)-1], num(width))) } }
	return each(found, func(x Int) Int { return shl(x, B-uint(scale)) }) }

func readReleases(list any, relation string, group int64) (found []release, cut Int) {
	joint, rho, cut, sure, replaced := zero, zero, zero, pair{one, one}, relation == "replace-one"
	for _, one := range listed(list, 1, 1000) {
		values, others, square, distance := fields(one, "mechanisms", "poisson", "count"), []part{}, zero, int64(1)
		text, _ := values[1].(string)
		m, q, count := SAMPLE.FindStringSubmatch(text), pair{}, num(whole(values[2], 1, 1e9))
		fixed, limited := m != nil && m[1] == "", m != nil && m[1] != ""
		if limited { text = m[1] }
		if fixed { q = pair{positive(m[2])[0], positive(m[3])[0]} } else { q = positive(text) }
		need(!less(q[1], q[0]), "a probability must be at most 1")
		need(replaced || !fixed, "not covered: a sample of a fixed size under this relation")
		if limited { cut = add(cut, prod(count, cutChance(q, number(m[2])[0], number(m[3])[0]))) }
		sampled := less(q[0], q[1])
		if !sampled || fixed { if distance = group; replaced { distance = 2 * group } }
		for _, mechanism := range listed(values[0], 1, 16) {
			o, _ := mechanism.(object)
			kind, _ := append(o.values, nil)[0].(string)
			need(MECHANISMS[kind] != nil, "not covered: such a mechanism")
			own := fields(mechanism, append([]string{"type"}, MECHANISMS[kind]...)...)[1:]
			stated, normal := among(kind, "gdp", "zcdp", "approximate", "bounded-range"), kind == "gaussian"
			fit := group == 1 && (fixed || !replaced) && kind != "zcdp" && (relation != "zero-out" || !stated)
			need(!sampled || fit || normal && (group == 1 || !replaced), "not covered: such a sample")
			need(kind != "randomized-response" || replaced && group == 1, "not covered: such randomized response")
			f, far := sure, distance
			if kind != "approximate" { f = positive(own[0]) }
			if stated { far = group }
			if normal { square = add(square, interval(pair{pow(prod(num(far), f[1]), 2), pow(f[0], 2)})[1])
			} else if kind == "gdp" { square = add(square, interval(pair{pow(prod(num(far), f[0]), 2), pow(f[1], 2)})[1])
			} else if kind == "zcdp" { rho = add(rho, interval(pair{prod(count, num(far*far), f[0]), f[1]})[1])
			} else { others = append(others, func(grid []any) []pair { return profile(kind, own, far, grid) }) } }
		if !sampled {
			joint = add(joint, prod(count, square))
			for _, other := range others { found = append(found, release{[]part{other}, sure, false, count}) }
		} else if len(others) == 0 && !fixed {
			found = append(found, release{[]part{gaussianOf(square, q, group, replaced)}, sure, !replaced, count})
		} else {
			if square.Sign() > 0 { others = append([]part{gaussianOf(square, sure, 1, false)}, others...) }
			found = append(found, release{others, q, !fixed, count}) } }
	statements := func(grid []any) []pair {
		points := each(edgesOf(grid), func(loss Int) pair { return concentrated(rho, loss) })
		return append(points, mirror(points)...) }
	if rho.Sign() > 0 { found = append([]release{{[]part{statements}, sure, false, one}}, found...) }
	merged := release{[]part{gaussianOf(joint, sure, 1, false)}, sure, false, one}
	if joint.Sign() > 0 { found = append([]release{merged}, found...) }
	return found, cut }

func check(certificate any) (worst Int, said string) {
	document := fields(certificate, "format", "claim", "proof")
	claim := fields(document[1], "epsilon", "delta", "relation", "group", "releases")
	proof := fields(document[2], "bits", "lines")
	need(document[0] == "dp-certificate/1", "the format is not dp-certificate/1")
	relation, _ := claim[2].(string)
	need(among(relation, "add-or-remove-one", "zero-out", "replace-one"), "not covered: this relation")
	B, work, worst = uint(whole(proof[0], 64, MAX_BITS)), zero, zero
	ONE = shl(one, B)
	epsilon, delta, inverted := number(claim[0]), number(claim[1]), pair{one, one}
	need(less(delta[0], delta[1]), "delta must be below 1")
	ways, parts := []string{""}, 0
	releases, cut := readReleases(claim[4], relation, whole(claim[3], 1, 1000))
	if delta[0].Sign() > 0 { inverted = inverse(delta) }
	if cut.Sign() > 0 { cut = mul(cut, add(ONE, exp(interval(epsilon)[1])[1])) }
	for _, r := range releases { if parts += len(r.parts); r.bent { ways = []string{"remove", "add"} } }
	for i, line := range listed(proof[1], len(ways), len(ways)) {
		values, hints, laws, infinite := listed(line, 1, 5), []Int{}, []law{}, cut
		for _, x := range values[1:] { hints = append(hints, num(whole(x, 1, MOST))) }
		need(len(hints) == 0 || len(hints) == 4, "a line is malformed")
		whole(append([]any{int64(1)}, values[1:]...)[len(hints)], 1, MAX_TERMS)
		grids := listed(values[0], parts, parts)
		for _, r := range releases {
			law, lost := distribution(r, ways[i], &grids)
			laws, infinite = append(laws, law), add(infinite, prod(r.count, lost)) }
		worst = largest(worst, boundDelta(laws, mul(infinite, interval(inverted)[1]), epsilon, delta, hints)) }
	said = fmt.Sprintf("at epsilon %s delta is at most %d", claim[0], ceil(prod(num(1000000), worst), ONE))
	return worst, said + fmt.Sprintf(" millionths of the claimed %s (%x)", claim[1], worst) }

// read takes the one spelling of JSON that a writer without blanks makes; escapes, fractions and literals never occur.
func read(text string, depth int) (value any, rest string) {
	need(text != "" && depth < 16, "it cannot be read")
	switch text[0] {
	case '"':
		end := strings.IndexAny(text[1:], "\"\\") + 1
		need(end > 0 && text[end] == '"', "it cannot be read")
		return text[1:end], text[end+1:]
	case '[', '{':
		closing, list, o := string(text[0]+2), []any{}, object{}
		for rest = text[1:]; !strings.HasPrefix(rest, closing) || len(list) > 0; {
			if text[0] == '{' {
				key, after := read(rest, depth+1)
				name, is := key.(string)
				need(is && strings.HasPrefix(after, ":") && !among(name, o.keys...), "it cannot be read")
				o.keys, rest = append(o.keys, name), after[1:] }
			value, rest = read(rest, depth+1)
			list = append(list, value)
			if strings.HasPrefix(rest, closing) { break }
			need(strings.HasPrefix(rest, ","), "it cannot be read")
			rest = rest[1:] }
		if o.values = list; text[0] == '{' { return o, rest[1:] }
		return list, rest[1:] }
	end := len(text) - len(strings.TrimLeft(text, "-0123456789"))
	n, problem := strconv.ParseInt(text[:end], 10, 64)
	need(problem == nil && strconv.FormatInt(n, 10) == text[:end], "it cannot be read")
	return n, text[end:] }

func judge(content []byte) (proven bool, said string) {
	defer func() {
		if problem := recover(); problem != nil {
			reason, is := problem.(refused)
			if !is { reason = "it cannot be read" }
			proven, said = false, "REFUSED: "+string(reason) } }()
	need(len(content) <= MAX_BYTES, fmt.Sprintf("the file is larger than %d bytes", MAX_BYTES))
	text := strings.TrimSuffix(string(content), "\n")
	for _, c := range text { need(' ' <= c && c <= '~', "it cannot be read") }
	certificate, rest := read(text, 0)
	need(rest == "", "it cannot be read")
	bound, said := check(certificate)
	return !less(ONE, bound), map[bool]string{true: "PROVEN: ", false: "REFUSED: "}[!less(ONE, bound)] + said }

func main() {
	file, _ := os.Open(os.Args[1]) // what cannot be read is no certificate
	content, _ := io.ReadAll(io.LimitReader(file, MAX_BYTES+1))
	proven, said := judge(content)
	fmt.Println(said)
	if !proven { os.Exit(1) } }
