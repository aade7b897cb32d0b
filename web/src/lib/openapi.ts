// Made from the API's OpenAPI document by scripts/typescript.py; not edited by hand. "inf" in JSON is Infinity here.

import type { ParameterSpec } from "./parameter-spec";
import { choice, choiceOrNull, flag, number, numberOrNull } from "./parse-values";
import { numbersOrNull, type RawValues, text, textOrNull } from "./parse-values";

/** Close a charge whose run is lost; it stays charged. */
export type AbandonRequest = ApproveRequest & {
  /** why; stored permanently */
  reason: string;
};

/** Accept a restored ledger, and what may be missing. */
export type AcceptRestoredRequest = {
  /** who decides; stored permanently */
  actor: string;
  /** why; stored permanently */
  reason: string;
};

/** Approve another cap, where a budget requires approvals before a cap may rise. */
export type ApproveCapRequest = DeclarePartitionRequest & {
  /** when the approval expires; null: seven days from now */
  until: string | null;
};

/** Approve a reservation, where a budget requires approvals before it may start. */
export type ApproveRequest = {
  /** the charge's idempotency key */
  key: string;
  /** the charge's scope; null: the only visible one with the key */
  scope: string | null;
  /** who decides; stored permanently */
  actor: string;
};

/** Cancel your own reservation, before its start. */
export type CancelRequest = {
  /** the charge's idempotency key */
  key: string;
  /** the charge's scope; null: the only visible one with the key */
  scope: string | null;
  /** why; stored permanently */
  reason: string;
};

/** Make a certificate of a release. */
export type CertifyRequest = {
  /** the release, as tagged JSON */
  release: Record<string, unknown>;
  /** failure probability, in [0, 1); 0 for pure DP */
  delta: number;
  /** epsilon to prove, in nats */
  epsilon: number | null;
  /** excess of epsilon over the accountant's bound, relative to it */
  slack: number;
  /** neighboring relation */
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
  /** units that one person holds */
  group_size: number;
};

/** A certificate, with what it proves. */
export type CertifyResponse = {
  /** the file, without its line end */
  certificate: string;
  /** what is proven, in nats, rounded up */
  epsilon: number;
  /** of the text */
  sha256: string;
  /** what is proven, as names and values */
  claim: ([string, string])[];
  /** what the checker says */
  message: string;
  /** of the checker, dp_certificate.py */
  checker_sha256: string;
};

/** Reserve, start and commit a charge in one step. */
export type ChargeAtOnceRequest = {
  /** names joined by '/' */
  scope: string;
  /** the charge's idempotency key, within its scope */
  key: string | null;
  /** the release, as tagged JSON */
  release: Record<string, unknown>;
  /** the neighboring relation; null: that of the nearest budget */
  relation: "add-or-remove-one" | "replace-one" | "zero-out" | null;
  /** what two neighboring data sets differ in; null: that of the nearest budget */
  privacy_unit: string | null;
  /** the data are simulated; only budgets of simulations accept the charge */
  simulation: boolean;
  /** delta that approximate budgets are charged; null: the release states it, or needs none */
  delta: string | null;
  /** the caller's cost, at least the accountant's; null: the accountant computes it */
  amount: Record<string, unknown> | null;
  /** a certificate of the release, its text; null: none; or that of the charge it repeats */
  certificate: string | null;
};

/** Charges of one transaction. */
export type ChargesRequest = {
  /** see ``charge``; each with its key */
  charges: ChargeAtOnceRequest[];
  /** whether one refusal undoes the batch; else each charge stands for itself */
  atomic: boolean;
};

/** The popular closed form: an estimate. */
export type ClosedFormModel = {
  /** a number; "inf" for an infinite one */
  root_term: number;
  /** a number; "inf" for an infinite one */
  linear_term: number;
  /** a number; "inf" for an infinite one */
  total: number;
  dominant_term: string;
  side?: "estimate";
};

/** Commit a started charge, with hashes of its evidence. */
export type CommitRequest = {
  /** the charge's idempotency key */
  key: string;
  /** the charge's scope; null: the only visible one with the key */
  scope: string | null;
  /** SHA-256 values by name */
  evidence: Record<string, unknown>;
};

/** Compare two releases at a delta and at a false-positive rate. */
export type CompareRequest = {
  /** a release */
  first: Part;
  /** another */
  second: Part;
  /** failure probability of the reported epsilons, in (0, 1) */
  delta: number;
  /** neighboring relation */
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
  /** FPR of the reported attacks, in (0, 1) */
  fpr: number;
};

/** A comparison of two releases: their curves, and the weaker one at each point. */
export type ComparisonResponse = {
  outcome: "first" | "second" | "neither" | "alike" | "open";
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  better: string | [string, Record<string, unknown>];
  messages: (string | [string, Record<string, unknown>])[];
  deltas: PointComparisonModel[];
  fprs: PointComparisonModel[];
  /** upper bound on the largest TPR excess of the first */
  first_excess: number;
  /** upper bound on the largest TPR excess of the second */
  second_excess: number;
  tolerance: number;
  first_fit: GaussianDPFitModel | null;
  second_fit: GaussianDPFitModel | null;
};

/** Interpret epsilon of several releases, against a cap. */
export type CompositionInterpretationRequest = CompositionRequest & {
  /** the policy's cap on epsilon */
  cap: number | null;
};

/** The joint cost of several such releases. */
export type CompositionModel = {
  count: number;
  /** null where none is proven */
  epsilon: number | null;
};

/** A composition of releases with its cost. */
export type CompositionPlan = {
  /** the release, as tagged JSON */
  release: Record<string, unknown>;
  epsilon: IntervalModel;
  parts: PartCost[];
};

/** Bound epsilon of several releases together. */
export type CompositionRequest = {
  /** the releases */
  parts: Part[];
  /** failure probability, in [0, 1) */
  delta: number;
  /** neighboring relation */
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
  /** FPR at which the trade-off curve is evaluated */
  fpr: number;
};

/** The joint cost of the answered queries, by their noise. */
export type ConsumedBudget = {
  /** a number; "inf" for an infinite one */
  split: number;
  classic: IntervalModel;
  exact: IntervalModel;
  optimal: IntervalModel;
};

/** Create a budget, before any charge at or under its scope. */
export type CreateBudgetRequest = {
  /** names joined by '/' */
  scope: string;
  /** pure, approximate, zcdp, gdp or rdp */
  kind: string;
  /** exact decimals by quantity */
  caps: Record<string, unknown>;
  /** neighboring relation of its charges */
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
  /** what two neighboring data sets differ in; null: not stated */
  privacy_unit: string | null;
  /** accepts charges of simulations only */
  simulation: boolean;
  /** it is a share of the budget above, set aside: others there cannot use it */
  quota: boolean;
  /** Renyi orders of an rdp budget with a target guarantee; null: no target guarantee */
  orders: string[] | null;
  /** each charge at or under it must present a certificate */
  requires_certificate: boolean;
  /** how many owners must approve each charge at or under it */
  requires_approvals: number;
  /** it takes charges only under a budget below it */
  requires_child_budget: boolean;
  /** from when charges may be made or reserved, in UTC; null: at any time before */
  valid_from: string | null;
  /** until when charges may be made or reserved, in UTC; null: for ever */
  valid_until: string | null;
};

/** Find where Gaussian noise becomes less than Laplace. */
export type CrossoverRequest = {
  /** total epsilon of the budget, in nats */
  epsilon: number;
  /** total failure probability */
  delta: number;
  /** additional number of queries in the comparison */
  queries: number | null;
};

/** The 95% error of one of Q equal queries, for unit sensitivity, by mechanism. */
export type CrossoverRow = {
  queries: number;
  /** a number; "inf" for an infinite one */
  laplace_pure: number;
  /** a number; "inf" for an infinite one */
  laplace_optimal: number;
  /** a number; "inf" for an infinite one */
  gaussian_classic: number;
  /** a number; "inf" for an infinite one */
  gaussian_optimal: number;
};

/** A DP-SGD run with its loader: the cost of its noise, or the noise for a target. */
export type DPSGDRequest = {
  /** number of examples in the data set; public */
  examples: number;
  /** expected number of examples in a batch */
  batch_size: number;
  /** failure probability, in (0, 1) */
  delta: number;
  /** passes over the data; steps are E N / B, rounded up */
  epochs: number | null;
  /** noisy steps of the optimizer */
  steps: number | null;
  /** noise standard deviation of a batch's sum, divided by the clip norm */
  noise_multiplier: number | null;
  /** target epsilon, in nats, instead of the noise multiplier */
  epsilon: number | null;
  /** L2 clip norm of one unit's contribution; does not affect epsilon */
  clip_norm: number;
  /** how the loader forms batches */
  sampler: "poisson" | "truncated-poisson" | "shuffled";
  /** size to which a Poisson batch is truncated */
  max_batch_size: number | null;
  /** neighboring relation */
  relation: "add-or-remove-one" | "replace-one" | "zero-out" | null;
};

/** A DP-SGD run with its cost; one neighbor differs in one example. */
export type DPSGDResponse = {
  /** the release, as tagged JSON */
  release?: Record<string, unknown>;
  examples: number;
  batch_size: number;
  epochs: number | null;
  /** noisy steps */
  steps: number;
  /** epochs that were begun; shuffled batches use an example at most once in each */
  passes: number;
  /** of an example, in each step; null for shuffled batches */
  sampling_probability: number | null;
  noise_multiplier: number;
  /** of the noise on each coordinate of a batch's average gradient */
  noise_stddev: number;
  clip_norm: number;
  sampler: string;
  max_batch_size: number | null;
  delta: number;
  delta_grade: "void" | "weak" | "good";
  delta_sentence: string;
  relation: string;
  epsilon: IntervalModel;
  /** the other loader */
  other_sampler: string;
  /** of the same run with the other loader */
  other_epsilon: IntervalModel;
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  loader_note: string | [string, Record<string, unknown>];
};

/** A DP-SGD run exported to other tools, with the epsilon of what each does. */
export type DPSGDSnippetsResponse = SnippetsResponse & {
  foreign: ForeignSnippetModel[];
};

/** Declare the scopes under a scope disjoint blocks. */
export type DeclarePartitionRequest = RetireRequest & {
  /** exact decimals by quantity */
  caps: Record<string, unknown>;
};

/** Record that a release is out of use; it stays spent. */
export type DecommissionRequest = ApproveRequest & {
  /** why; stored permanently */
  reason: string;
};

/** The failure probability that is used, and why. */
export type DeltaModel = {
  value: number;
  rationale: string;
  findings: FindingModel[];
};

/** A published privacy budget. */
export type DeploymentModel = {
  /** publisher and release */
  name: string;
  /** how much of a person's data one unit holds */
  protects: string;
  epsilon: number;
  delta: number;
  /** of zCDP, where that was published */
  rho: number | null;
  source: string;
};

/** The cost of the first rounds. */
export type EpsilonCurvePointModel = {
  rounds: number;
  /** null where only the upper bound is known */
  lower: number | null;
  /** a number; "inf" for an infinite one */
  upper: number;
  /** a number; "inf" for an infinite one */
  closed_form: number;
};

/** Epsilon over rounds. */
export type EpsilonCurveResponse = {
  points: EpsilonCurvePointModel[];
};

/** What a verdict rests on, in a few words each. */
export type EvidenceKindsModel = {
  recomputed: string[];
  /** what rests on the curator's word */
  attested: string[];
  unknown: string[];
  /** checks that failed, and what they found */
  contradicted: string[];
};

/** Nothing. */
export type ExampleRequest = {
};

/** Return an expired reservation that has not started. */
export type ExpireRequest = {
  /** the charge's idempotency key */
  key: string;
  /** the charge's scope; null: the only visible one with the key */
  scope: string | null;
};

/** A schedule with a target: the inverse questions vary its noise or its rounds. */
export type FederatedGoal = FederatedSchedule & {
  /** target epsilon, in nats */
  epsilon: number;
};

/** Interpret epsilon of a schedule, against a cap. */
export type FederatedInterpretationRequest = FederatedRequest & {
  /** the policy's cap on epsilon */
  cap: number | null;
};

/** A schedule with the scope of its claim, with what its owner says in the record. */
export type FederatedRecordRequest = FederatedRequest & {
  /** the reason for this delta */
  delta_reason: string | null;
  references: FileReferenceModel[];
};

/** A schedule with the scope of its claim. */
export type FederatedRequest = FederatedSchedule & {
  /** each unit gives at most one update per round */
  without_replacement: boolean;
  /** rounds between two released models */
  rounds_per_release: number;
  /** the clip norm is learned from the same data */
  adaptive_clip: boolean;
  /** how late or missing replies are handled */
  late_replies: "count-as-zero" | "close-early" | "replace";
  /** maximum number of units per person; adds the cost for that person */
  group_size: number;
  /** distribution of the number of runs, if only the best is released; adds the cost of tuning */
  trials: string | null;
};

/** A schedule with its cost. */
export type FederatedResponse = {
  delta: DeltaModel;
  relation: string;
  privacy_unit: string;
  closed_form: ClosedFormModel;
  epsilon: IntervalModel;
  unamplified: IntervalModel;
  releases_per_period: number;
  cumulative: IntervalModel;
  group_size?: number;
  group_interval?: IntervalModel | null;
  tuning_cost?: TuningCostModel | null;
  population: number;
  cohort_size: number;
  rounds: number;
  noise_multiplier: number;
  sampling: string;
  clip_norm: number;
  /** the release, as tagged JSON */
  release?: Record<string, unknown>;
  sampling_probability: number;
  noise_stddev: number;
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  closed_form_note: string | [string, Record<string, unknown>];
  delta_grade: "void" | "weak" | "good";
  delta_sentence: string;
  limits: FindingModel[];
};

/** The public facts of a federated run. */
export type FederatedSchedule = {
  /** number of privacy units; declared, public */
  population: number;
  /** expected number of units per round */
  cohort_size: number;
  /** training rounds */
  rounds: number;
  /** noise standard deviation of the sum, divided by the clip norm */
  noise_multiplier: number;
  /** L2 clip norm of one unit's contribution; does not affect epsilon */
  clip_norm: number;
  /** failure probability */
  delta: number | null;
  /** maximum delta of the policy */
  delta_cap: number | null;
  /** sampling method that the code uses for each cohort */
  sampling: "poisson" | "fixed-size" | "balls-in-bins";
  /** neighboring relation */
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
  /** what two neighboring data sets differ in */
  privacy_unit: string;
  /** runs on the same population that are released per period */
  releases_per_period: number;
};

/** A file that a calculation refers to, by its hash. */
export type FileReferenceModel = {
  what: "model" | "data" | "playbook" | "other";
  /** the owner's name for the file; not a path */
  name: string;
  /** SHA-256 of its bytes, 64 hex digits */
  sha256: string;
};

/** A finding for the reader; the reference lists the codes. */
export type FindingModel = {
  code: string;
  check: string;
  status: "passed" | "warned" | "failed" | "not checked";
  message: string;
  values: Record<string, unknown>;
};

/** Code for another library. */
export type ForeignSnippetModel = {
  name: string;
  /** null if the library cannot do this */
  code: string | null;
  /** what the code does, or why there is none */
  note: string;
};

/** What the best attack finds. */
export type FoundResponse = {
  /** of 1,000 examples, where 10 of 1,000 others are wrongly accused; null without a proof */
  found: number | null;
  meaning: (string | [string, Record<string, unknown>])[];
};

/** The closest mu of Gaussian DP, with both errors. */
export type GaussianDPFitModel = {
  /** a number; "inf" for an infinite one */
  mu: number;
  /** upper bound on an attacker's excess over mu */
  slack: number;
  /** upper bound on the overstatement by mu */
  regret: number;
};

/** A question about the headroom of a scope, optionally for a release. */
export type HeadroomRequest = {
  /** names joined by '/' */
  scope: string;
  /** see ``reserve``; null asks for the available amount */
  release: Record<string, unknown> | null;
  /** delta that approximate budgets are charged */
  delta: string | null;
  /** null: that of the nearest budget */
  relation: "add-or-remove-one" | "replace-one" | "zero-out" | null;
};

/** The headroom of a scope. */
export type HeadroomResponse = {
  /** the least amount available on any budget of the path */
  available: Record<string, unknown>;
  /** number of such charges that fit; null without a release */
  charges: number | null;
  /** number of repetitions that fit as one plan; null if the release has none */
  repetitions: number | null;
};

/** Hold a reservation until a time. */
export type HoldRequest = {
  /** the charge's idempotency key */
  key: string;
  /** the charge's scope; null: the only visible one with the key */
  scope: string | null;
  /** ISO 8601, with its offset from UTC */
  until: string;
};

/** The meaning of a claim for one person: upper bounds, and the number of releases under a cap. */
export type InterpretationResponse = {
  /** a number; "inf" for an infinite one */
  epsilon: number;
  delta: number;
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  statement: string | [string, Record<string, unknown>];
  /** logarithm of the factor by which odds change at most, except with probability delta */
  log_odds_factor: number;
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  odds: string | [string, Record<string, unknown>];
  posteriors: PosteriorModel[];
  delta_notes: (string | [string, Record<string, unknown>])[];
  releases: CompositionModel[];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  composition_note: string | [string, Record<string, unknown>];
  cap: number | null;
  /** number of such releases that fit the cap together; null without a cap */
  max_releases_under_cap: number | null;
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  headroom_note: string | [string, Record<string, unknown>];
  assumptions: (string | [string, Record<string, unknown>])[];
  /** what the claim covers, and what it does not */
  limits: (string | [string, Record<string, unknown>])[];
};

/** A certified interval; only ``upper`` may be claimed. */
export type IntervalModel = {
  /** null where only the upper bound is known */
  lower: number | null;
  /** a number; "inf" for an infinite one */
  upper: number;
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  method: string | [string, Record<string, unknown>];
  relation: string;
  assumptions: (string | [string, Record<string, unknown>])[];
  type?: "interval";
  estimate?: number | null;
  quantity?: string;
  given?: ([string, number])[];
};

/** Record that a ledger was restored from a backup. */
export type MarkRestoredRequest = {
  /** who decides; stored permanently */
  actor: string;
  /** why; stored permanently */
  reason: string;
};

/** A run of ``bins * epochs`` rounds: participation, noise, and the epsilon at which delta is bounded. */
export type MonteCarloRequest = {
  participation: "balls-in-bins" | "b-min-sep" | "cyclic-poisson";
  /** the matrix C: identity, or Toeplitz with `bands`, its columns of norm 1 */
  strategy: "independent" | "square-root" | "optimal";
  /** entries in a column of C; ignored for independent noise */
  bands: number;
  /** rounds in an epoch; b of b-min-sep and of cyclic Poisson */
  bins: number;
  epochs: number;
  /** probability of joining when allowed; not for balls-in-bins */
  probability: number;
  /** noise of Z over the clip norm */
  noise_multiplier: number;
  epsilon: number;
  /** probability over the draws that the interval is wrong */
  failure: number;
  /** draws for each adjacency type */
  samples: number;
};

/** The least noise that meets a goal. */
export type NoiseResponse = {
  noise_multiplier: number;
};

/** Allow one charge at a cost that is not proven. */
export type OverrideCostRequest = {
  /** names joined by '/' */
  scope: string;
  /** the charge's idempotency key, within its scope */
  key: string;
  /** the release, as tagged JSON */
  release: Record<string, unknown>;
  /** the neighboring relation; null: that of the nearest budget */
  relation: "add-or-remove-one" | "replace-one" | "zero-out" | null;
  /** what two neighboring data sets differ in; null: that of the nearest budget */
  privacy_unit: string | null;
  /** the data are simulated; only budgets of simulations accept the charge */
  simulation: boolean;
  /** its cost, by quantity */
  amount: Record<string, unknown>;
  /** why; stored permanently */
  reason: string;
  /** SHA-256 of the plan, 64 hex digits; null: no plan */
  plan_hash: string | null;
  /** the most rounds it may run; null: no limit */
  rounds: number | null;
};

/** One kind of release in a mix. */
export type Part = {
  /** mechanism */
  mechanism: "gaussian" | "laplace" | "randomized-response" | "pure" | "approximate" | "zcdp" | "gdp";
  /** noise multiplier, flip probability, epsilon, rho or mu */
  parameter: number;
  /** delta of a stated (epsilon, delta) guarantee, or number of categories */
  second: number | null;
  /** sampling probability per unit */
  sampling_probability: number;
  /** number of repetitions */
  count: number;
};

/** One part of a report compared with its recomputation: its values, and those that differ. */
export type PartComparisonModel = {
  part: string;
  fields: number;
  /** attested values, whose equality proves nothing */
  copied: number;
  /** path, stated value, recomputed value */
  differing: ([string, string, string])[];
};

/** One part of a mix. */
export type PartCost = {
  alone: IntervalModel;
  without: IntervalModel;
};

/** How two releases compare at one delta, by epsilon, or at one false-positive rate, by true positives. */
export type PointComparisonModel = {
  at: number;
  first: IntervalModel;
  second: IntervalModel;
  /** points at which the bounds differ */
  better: "first" | "second" | "open";
};

/** An upper bound on the posterior probability. */
export type PosteriorModel = {
  prior: number;
  posterior: number;
};

/** Delta at one epsilon. */
export type ProfilePointModel = {
  epsilon: number;
  lower: number;
  upper: number;
};

/** The privacy profile of several releases, and the best attack on them. */
export type ProfileResponse = {
  profile: ProfilePointModel[];
  roc: RatePointModel[];
  fpr: number;
  tpr: number;
  advantage: number;
};

/** Interpret epsilon of all queries, against a cap. */
export type QueriesInterpretationRequest = QueriesRequest & {
  /** the policy's cap on epsilon */
  cap: number | null;
};

/** A budget over several queries, with what its owner says in the record. */
export type QueriesRecordRequest = QueriesRequest & {
  /** the reason for this delta */
  delta_reason: string | null;
  references: FileReferenceModel[];
};

/** A budget over several queries. */
export type QueriesRequest = {
  /** total epsilon of the budget, in nats */
  epsilon: number;
  /** number of planned queries */
  queries: number;
  /** sensitivity: maximum change of an answer by one unit */
  sensitivity: number;
  /** the noise */
  mechanism: "laplace" | "gaussian";
  /** total failure probability */
  delta: number | null;
  /** maximum delta of the policy */
  delta_cap: number | null;
  /** number of queries already answered */
  queries_used: number;
  /** relative share of each query */
  weights: number[] | null;
  /** number of privacy units, for the delta policy */
  population: number | null;
  /** typical true answer, for relative errors */
  magnitude: number | null;
};

/** A budget split over queries, with the noise of each. */
export type QueriesResponse = {
  /** a number; "inf" for an infinite one */
  epsilon: number;
  delta: DeltaModel | null;
  mechanism: string;
  /** a number; "inf" for an infinite one */
  sensitivity: number;
  shares: QueryShare[];
  queries_used: number;
  consumed: ConsumedBudget;
  /** a number; "inf" for an infinite one */
  classic_total_delta: number;
  findings: FindingModel[];
  magnitude: number | null;
  /** the release, as tagged JSON */
  release?: Record<string, unknown>;
  queries: number;
  queries_left: number;
  /** a number; "inf" for an infinite one */
  remaining: number;
  compatible: boolean;
  /** a number; "inf" for an infinite one */
  saving: number;
  relative_error_95: number | null;
  delta_grade: "void" | "weak" | "good" | null;
  delta_sentence: string | null;
};

/** The noise of one query, in the query's own unit. */
export type QueryNoise = {
  /** a number; "inf" for an infinite one */
  scale: number;
  /** a number; "inf" for an infinite one */
  expected_error: number;
  /** a number; "inf" for an infinite one */
  error_95: number;
};

/** Laplace against Gaussian over the number of queries. */
export type QueryNoiseComparison = {
  rows: CrossoverRow[];
  against_pure: number;
  against_optimal: number | null;
};

/** The sensitivity of a query. */
export type QuerySensitivity = {
  /** a number; "inf" for an infinite one */
  value: number;
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  reason: string | [string, Record<string, unknown>];
};

/** The part of the budget for each of ``count`` equal queries. */
export type QueryShare = {
  count: number;
  /** a number; "inf" for an infinite one */
  weight: number;
  /** a number; "inf" for an infinite one */
  epsilon: number;
  classic: QueryNoise;
  exact: QueryNoise;
  optimal: QueryNoise;
};

/** The best attacker's true-positive rate at one false-positive rate. */
export type RatePointModel = {
  fpr: number;
  tpr: number;
};

/** Register a plan before anything is reserved for it. */
export type RegisterPlanRequest = {
  /** names joined by '/' */
  scope: string;
  /** the charge's idempotency key, within its scope */
  key: string;
  /** SHA-256 of the plan, 64 hex digits */
  plan_hash: string;
};

/** Record the release of a round, before its output leaves. */
export type ReleaseRoundRequest = StartRoundRequest & {
  /** SHA-256, 64 hex digits */
  output_hash: string;
};

/** The claim that a report alone supports, by check and by part. */
export type ReportVerificationModel = {
  status: "passed" | "warned" | "failed" | "not checked";
  /** whether it holds, and what that rests on, in a few words */
  answer: string;
  /** the supported claim, in a sentence */
  supported_claim: string;
  findings: FindingModel[];
  parts: PartComparisonModel[];
  evidence: EvidenceKindsModel;
  /** a rehearsal, whose noise protects nobody */
  simulation: boolean;
};

/** Reserve the cost of a release; nothing is spent yet. */
export type ReserveRequest = ChargeAtOnceRequest & {
  /** SHA-256 of the plan, 64 hex digits; null: no plan */
  plan_hash: string | null;
  /** the most rounds it may run; null: no limit */
  rounds: number | null;
  /** when anyone may cancel it if it has not started, such as 2026-05-01T12:00Z; null: never */
  until: string | null;
};

/** Retire a scope: it accepts no new charge, ever. */
export type RetireRequest = {
  /** names joined by '/' */
  scope: string;
  /** who decides; stored permanently */
  actor: string;
  /** why; stored permanently */
  reason: string;
};

/** Revoke a reservation of others that has not started. */
export type RevokeRequest = ApproveRequest & {
  /** why; stored permanently */
  reason: string;
};

/** Bounds on attacks, and the cost of copies: a report's tables, by row. */
export type RiskMetricsResponse = {
  /** label and figure */
  rows: ([string | [string, Record<string, unknown>], string])[];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  attack_note: string | [string, Record<string, unknown>];
  /** copies, epsilon at most, at least */
  group_rows: ([string, string, string])[];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  group_note: string | [string, Record<string, unknown>];
};

/** The most rounds that meet a goal. */
export type RoundsResponse = {
  rounds: number;
};

/** Bound the sensitivity of a count, sum or mean. */
export type SensitivityRequest = {
  /** query type */
  query: "count" | "sum" | "mean";
  /** maximum number of rows per unit */
  contributions: number;
  /** lower clipping bound */
  low: number;
  /** upper clipping bound */
  high: number;
  /** declared, public divisor of the mean */
  size: number | null;
  /** neighboring relation */
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
};

/** Set another cap, higher or lower. */
export type SetCapRequest = RetireRequest & {
  /** exact decimals by quantity */
  caps: Record<string, unknown>;
};

/** A calculation exported to other tools, each of which reproduces its number. */
export type SnippetsResponse = {
  python: string;
  command: string;
  /** the run config (TOML); null if none can express the plan */
  run_config: string | null;
  /** reason why a file is absent, or would be rejected */
  no_run_config: string | null;
  /** an address; null if its form cannot express the plan */
  playground: string | null;
  /** an address of the ledger's page, with the release */
  charge: string;
};

/** A question with its answer, and the SHA-256 of their canonical JSON. */
export type StampedCalculationModel = {
  record: Record<string, unknown>;
  sha256: string;
};

/** Start a charge: spend its reservation permanently. */
export type StartRequest = {
  /** the charge's idempotency key */
  key: string;
  /** the charge's scope; null: the only visible one with the key */
  scope: string | null;
};

/** Begin a round, or begin it again before its release. */
export type StartRoundRequest = {
  /** the charge's idempotency key */
  key: string;
  /** the charge's scope; null: the only visible one with the key */
  scope: string | null;
  /** which round, from 1 */
  round: number;
};

/** The cost of the best of several runs. */
export type TuningCostModel = {
  trials: Record<string, unknown>;
  expected: number;
  best: IntervalModel;
  single_run: IntervalModel;
  count: number;
  all_released: IntervalModel | null;
  trial_distribution: string;
};

/** Say what an epsilon means, out of 1,000 people. */
export type VerdictRequest = {
  /** epsilon of the claim, in nats */
  epsilon: number | null;
  /** failure probability of the claim, in [0, 1); 0 for pure DP */
  delta: number;
  /** the release, as tagged JSON */
  release: Record<string, unknown> | null;
  /** neighboring relation */
  relation: "add-or-remove-one" | "replace-one" | "zero-out";
  /** what two neighboring data sets differ in */
  privacy_unit: string;
  /** suspicion beforehand, in (0, 1) */
  prior: number;
  /** randomness was seeded, so that nobody is protected */
  simulation: boolean;
  /** name of what is released */
  name: string | null;
  /** SHA-256 of the report that the figures come from */
  report: string | null;
  /** verdict on the report */
  verdict: string | null;
  /** date of the card */
  date: string | null;
};

/** A verdict card; every figure is an upper bound. */
export type VerdictResponse = {
  /** of 1,000 units, those that the best attack finds */
  found: number;
  /** those that a blind guess finds */
  guessed: number;
  /** further ones if the participation list leaks */
  leaked: number;
  /** a number; "inf" for an infinite one */
  epsilon: number;
  prior: number;
  /** after an accusation; at most 0.999 is printed */
  posterior: number;
  /** what must be read before a rehearsal's figures */
  banner: (string | [string, Record<string, unknown>])[];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  headline: string | [string, Record<string, unknown>];
  /** what guessing finds, and where the figures come from */
  notes: (string | [string, Record<string, unknown>])[];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  suspicion: string | [string, Record<string, unknown>];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  highest: string | [string, Record<string, unknown>];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  claim: string | [string, Record<string, unknown>];
  /** the report that the figures come from, and its verdict */
  origin: (string | [string, Record<string, unknown>])[];
  /** what the claim does not protect */
  unprotected: (string | [string, Record<string, unknown>])[];
  /** an identifier of the catalogue of messages, with its parameters; or a sentence */
  published_note: string | [string, Record<string, unknown>];
  published: DeploymentModel[];
  /** the privacy unit, in the plural */
  units: string;
  date: string;
  engine: string;
  /** the card as text: what the hash covers */
  text: string;
  sha256: string;
};

/** A report and the bundle of its ledger, as text. */
export type VerificationExampleModel = {
  report: string;
  bundle: string;
};

/** A report, a bundle of a ledger, or both, with what an auditor kept elsewhere. */
export type VerifyRequest = {
  /** report.json or report.html, as text */
  report: string | null;
  /** the bundle of the ledger that was charged, as text */
  bundle: string | null;
  /** a stamped record of a calculator, as text */
  record: string | null;
  /** the report's signature (.intoto.jsonl) */
  signature: string | null;
  /** a checkpoint that was kept: the bundle begins with it */
  checkpoint: string | null;
  /** the trusted key of signatures, NAME+ID+KEY */
  key: string | null;
};

export const PARAMETERS = {
  DPSGDRequest: {
    examples: { name: "examples", kind: "integer", help: "number of examples in the data set; public", initial: "60000", min: 1, symbol: "N" },
    batch_size: { name: "batch_size", kind: "integer", help: "expected number of examples in a batch", initial: "256", min: 1, symbol: "B", maxField: "examples" },
    delta: { name: "delta", kind: "real", help: "failure probability, in (0, 1)", initial: "1e-5", exclusiveMin: 0, exclusiveMax: 1, symbol: "δ" },
    epochs: { name: "epochs", kind: "real", help: "passes over the data; steps are E N / B, rounded up", initial: "60", optional: true, exclusiveMin: 0, max: 1000000, symbol: "E", noneMeans: "steps are given" },
    steps: { name: "steps", kind: "integer", help: "noisy steps of the optimizer", initial: "", optional: true, min: 1, max: 1000000000000, symbol: "T", noneMeans: "from epochs: E N / B, rounded up" },
    noise_multiplier: { name: "noise_multiplier", kind: "real", help: "noise standard deviation of a batch's sum, divided by the clip norm", initial: "1.1", optional: true, min: 0, symbol: "σ", noneMeans: "the least that meets the target epsilon" },
    epsilon: { name: "epsilon", kind: "real", help: "target epsilon, in nats, instead of the noise multiplier", initial: "", optional: true, exclusiveMin: 0, symbol: "ε", noneMeans: "the noise multiplier is given" },
    clip_norm: { name: "clip_norm", kind: "real", help: "L2 clip norm of one unit's contribution; does not affect epsilon", initial: "1", exclusiveMin: 0, symbol: "C" },
    sampler: { name: "sampler", kind: "choice", help: "how the loader forms batches", initial: "poisson", choices: [["poisson", "Poisson: each example joins each batch by its own coin"], ["truncated-poisson", "truncated Poisson: a batch that is too large is cut to a maximum size"], ["shuffled", "shuffled: each epoch takes every example once, in random order"]] },
    max_batch_size: { name: "max_batch_size", kind: "integer", help: "size to which a Poisson batch is truncated", initial: "", optional: true, min: 1, noneMeans: "no truncation" },
    relation: { name: "relation", kind: "choice", help: "neighboring relation", initial: "", optional: true, noneMeans: "add-or-remove-one; with shuffled batches zero-out", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]] },
  },
  FederatedRequest: {
    population: { name: "population", kind: "integer", help: "number of privacy units; declared, public", initial: "50000", min: 1, symbol: "N" },
    cohort_size: { name: "cohort_size", kind: "integer", help: "expected number of units per round", initial: "500", min: 1, symbol: "m", maxField: "population" },
    rounds: { name: "rounds", kind: "integer", help: "training rounds", initial: "200", min: 1, symbol: "T" },
    noise_multiplier: { name: "noise_multiplier", kind: "real", help: "noise standard deviation of the sum, divided by the clip norm", initial: "1.2", min: 0, symbol: "σ" },
    clip_norm: { name: "clip_norm", kind: "real", help: "L2 clip norm of one unit's contribution; does not affect epsilon", initial: "1", exclusiveMin: 0, symbol: "C" },
    delta: { name: "delta", kind: "real", help: "failure probability", initial: "", optional: true, exclusiveMin: 0, exclusiveMax: 1, symbol: "δ", noneMeans: "min(1/N, the cap)" },
    delta_cap: { name: "delta_cap", kind: "real", help: "maximum delta of the policy", initial: "1e-6", optional: true, exclusiveMin: 0, exclusiveMax: 1, noneMeans: "no cap" },
    sampling: { name: "sampling", kind: "choice", help: "sampling method that the code uses for each cohort", initial: "poisson", choices: [["poisson", "Poisson: each unit joins independently"], ["fixed-size", "fixed size, without replacement"], ["balls-in-bins", "balls-in-bins: each unit joins one random round per epoch"]] },
    relation: { name: "relation", kind: "choice", help: "neighboring relation", initial: "add-or-remove-one", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]] },
    privacy_unit: { name: "privacy_unit", kind: "text", help: "what two neighboring data sets differ in", initial: "client", max: 80 },
    releases_per_period: { name: "releases_per_period", kind: "integer", help: "runs on the same population that are released per period", initial: "1", min: 1 },
    without_replacement: { name: "without_replacement", kind: "flag", help: "each unit gives at most one update per round", initial: "yes" },
    rounds_per_release: { name: "rounds_per_release", kind: "integer", help: "rounds between two released models", initial: "1", min: 1 },
    adaptive_clip: { name: "adaptive_clip", kind: "flag", help: "the clip norm is learned from the same data", initial: "no" },
    late_replies: { name: "late_replies", kind: "choice", help: "how late or missing replies are handled", initial: "count-as-zero", choices: [["count-as-zero", "left out: each counts as a zero update"], ["close-early", "the round closes once enough clients have replied"], ["replace", "other clients replace them"]] },
    group_size: { name: "group_size", kind: "integer", help: "maximum number of units per person; adds the cost for that person", initial: "1", min: 1, max: 64, symbol: "k" },
    trials: { name: "trials", kind: "text", help: "distribution of the number of runs, if only the best is released; adds the cost of tuning", initial: "", optional: true, noneMeans: "one run; examples: binomial:8,0.5, geometric:0.1", max: 80 },
  },
  FederatedGoal: {
    population: { name: "population", kind: "integer", help: "number of privacy units; declared, public", initial: "50000", min: 1, symbol: "N" },
    cohort_size: { name: "cohort_size", kind: "integer", help: "expected number of units per round", initial: "500", min: 1, symbol: "m", maxField: "population" },
    rounds: { name: "rounds", kind: "integer", help: "training rounds", initial: "200", min: 1, symbol: "T" },
    noise_multiplier: { name: "noise_multiplier", kind: "real", help: "noise standard deviation of the sum, divided by the clip norm", initial: "1.2", min: 0, symbol: "σ" },
    clip_norm: { name: "clip_norm", kind: "real", help: "L2 clip norm of one unit's contribution; does not affect epsilon", initial: "1", exclusiveMin: 0, symbol: "C" },
    delta: { name: "delta", kind: "real", help: "failure probability", initial: "", optional: true, exclusiveMin: 0, exclusiveMax: 1, symbol: "δ", noneMeans: "min(1/N, the cap)" },
    delta_cap: { name: "delta_cap", kind: "real", help: "maximum delta of the policy", initial: "1e-6", optional: true, exclusiveMin: 0, exclusiveMax: 1, noneMeans: "no cap" },
    sampling: { name: "sampling", kind: "choice", help: "sampling method that the code uses for each cohort", initial: "poisson", choices: [["poisson", "Poisson: each unit joins independently"], ["fixed-size", "fixed size, without replacement"], ["balls-in-bins", "balls-in-bins: each unit joins one random round per epoch"]] },
    relation: { name: "relation", kind: "choice", help: "neighboring relation", initial: "add-or-remove-one", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]] },
    privacy_unit: { name: "privacy_unit", kind: "text", help: "what two neighboring data sets differ in", initial: "client", max: 80 },
    releases_per_period: { name: "releases_per_period", kind: "integer", help: "runs on the same population that are released per period", initial: "1", min: 1 },
    epsilon: { name: "epsilon", kind: "real", help: "target epsilon, in nats", initial: "2", exclusiveMin: 0, symbol: "ε" },
  },
  QueriesRequest: {
    epsilon: { name: "epsilon", kind: "real", help: "total epsilon of the budget, in nats", initial: "1", exclusiveMin: 0, symbol: "ε" },
    queries: { name: "queries", kind: "integer", help: "number of planned queries", initial: "100", min: 1, symbol: "Q" },
    sensitivity: { name: "sensitivity", kind: "real", help: "sensitivity: maximum change of an answer by one unit", initial: "1", exclusiveMin: 0, symbol: "Δ" },
    mechanism: { name: "mechanism", kind: "choice", help: "the noise", initial: "laplace", choices: [["laplace", "Laplace"], ["gaussian", "Gaussian"]] },
    delta: { name: "delta", kind: "real", help: "total failure probability", initial: "", optional: true, exclusiveMin: 0, exclusiveMax: 1, symbol: "δ", noneMeans: "none, or from N" },
    delta_cap: { name: "delta_cap", kind: "real", help: "maximum delta of the policy", initial: "1e-6", optional: true, exclusiveMin: 0, exclusiveMax: 1, noneMeans: "no cap" },
    queries_used: { name: "queries_used", kind: "integer", help: "number of queries already answered", initial: "0", min: 0 },
    weights: { name: "weights", kind: "list", help: "relative share of each query", initial: "", optional: true, exclusiveMin: 0, noneMeans: "even" },
    population: { name: "population", kind: "integer", help: "number of privacy units, for the delta policy", initial: "", optional: true, min: 1, symbol: "N", noneMeans: "unknown" },
    magnitude: { name: "magnitude", kind: "real", help: "typical true answer, for relative errors", initial: "", optional: true, noneMeans: "unknown" },
  },
  SensitivityRequest: {
    query: { name: "query", kind: "choice", help: "query type", initial: "", choices: [["count", "count"], ["sum", "sum"], ["mean", "mean"]] },
    contributions: { name: "contributions", kind: "integer", help: "maximum number of rows per unit", initial: "1", min: 1 },
    low: { name: "low", kind: "real", help: "lower clipping bound", initial: "0" },
    high: { name: "high", kind: "real", help: "upper clipping bound", initial: "1" },
    size: { name: "size", kind: "integer", help: "declared, public divisor of the mean", initial: "", optional: true, min: 1, noneMeans: "no mean" },
    relation: { name: "relation", kind: "choice", help: "neighboring relation", initial: "add-or-remove-one", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]] },
  },
  MonteCarloRequest: {
    participation: { name: "participation", kind: "choice", help: "", initial: "balls-in-bins", choices: [["balls-in-bins", "balls-in-bins"], ["b-min-sep", "b-min-sep"], ["cyclic-poisson", "cyclic-poisson"]] },
    strategy: { name: "strategy", kind: "choice", help: "the matrix C: identity, or Toeplitz with `bands`, its columns of norm 1", initial: "independent", choices: [["independent", "independent"], ["square-root", "square-root"], ["optimal", "optimal"]] },
    bands: { name: "bands", kind: "integer", help: "entries in a column of C; ignored for independent noise", initial: "8", min: 1, max: 512 },
    bins: { name: "bins", kind: "integer", help: "rounds in an epoch; b of b-min-sep and of cyclic Poisson", initial: "16", min: 1, max: 1024 },
    epochs: { name: "epochs", kind: "integer", help: "", initial: "1", min: 1, max: 100 },
    probability: { name: "probability", kind: "real", help: "probability of joining when allowed; not for balls-in-bins", initial: "0.5", exclusiveMin: 0, max: 1 },
    noise_multiplier: { name: "noise_multiplier", kind: "real", help: "noise of Z over the clip norm", initial: "1", exclusiveMin: 0, max: 1000 },
    epsilon: { name: "epsilon", kind: "real", help: "", initial: "1", min: 0, max: 100 },
    failure: { name: "failure", kind: "real", help: "probability over the draws that the interval is wrong", initial: "1e-6", exclusiveMin: 0, exclusiveMax: 1 },
    samples: { name: "samples", kind: "integer", help: "draws for each adjacency type", initial: "1e+06", min: 1000, max: 50000000 },
  },
  CompositionInterpretationRequest: {
    delta: { name: "delta", kind: "real", help: "failure probability, in [0, 1)", initial: "1e-6", min: 0, exclusiveMax: 1, symbol: "δ" },
    relation: { name: "relation", kind: "choice", help: "neighboring relation", initial: "add-or-remove-one", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]] },
    fpr: { name: "fpr", kind: "real", help: "FPR at which the trade-off curve is evaluated", initial: "0.01", min: 0, max: 1 },
    cap: { name: "cap", kind: "real", help: "the policy's cap on epsilon", initial: "", optional: true, exclusiveMin: 0, noneMeans: "no cap" },
  },
  CompareRequest: {
    delta: { name: "delta", kind: "real", help: "failure probability of the reported epsilons, in (0, 1)", initial: "1e-6", exclusiveMin: 0, exclusiveMax: 1, symbol: "δ" },
    relation: { name: "relation", kind: "choice", help: "neighboring relation", initial: "add-or-remove-one", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]] },
    fpr: { name: "fpr", kind: "real", help: "FPR of the reported attacks, in (0, 1)", initial: "0.01", exclusiveMin: 0, exclusiveMax: 1 },
  },
  Part: {
    mechanism: { name: "mechanism", kind: "choice", help: "mechanism", initial: "", choices: [["gaussian", "Gaussian noise"], ["laplace", "Laplace noise"], ["randomized-response", "randomized response"], ["pure", "stated ε-DP"], ["approximate", "stated (ε, δ)-DP"], ["zcdp", "stated ρ-zCDP"], ["gdp", "stated μ-GDP"]] },
    parameter: { name: "parameter", kind: "real", help: "noise multiplier, flip probability, epsilon, rho or mu", initial: "" },
    second: { name: "second", kind: "real", help: "delta of a stated (epsilon, delta) guarantee, or number of categories", initial: "", optional: true, noneMeans: "0, or 2" },
    sampling_probability: { name: "sampling_probability", kind: "real", help: "sampling probability per unit", initial: "1", exclusiveMin: 0, max: 1 },
    count: { name: "count", kind: "integer", help: "number of repetitions", initial: "1", min: 1 },
  },
  VerdictRequest: {
    epsilon: { name: "epsilon", kind: "real", help: "epsilon of the claim, in nats", initial: "4", optional: true, min: 0, symbol: "ε", noneMeans: "that of the release" },
    delta: { name: "delta", kind: "real", help: "failure probability of the claim, in [0, 1); 0 for pure DP", initial: "0", min: 0, exclusiveMax: 1, symbol: "δ" },
    release: { name: "release", kind: "text", help: "the release, as tagged JSON", initial: "", optional: true, noneMeans: "epsilon and delta alone" },
    relation: { name: "relation", kind: "choice", help: "neighboring relation", initial: "add-or-remove-one", choices: [["add-or-remove-one", "add or remove one"], ["replace-one", "replace one"], ["zero-out", "zero out one"]] },
    privacy_unit: { name: "privacy_unit", kind: "text", help: "what two neighboring data sets differ in", initial: "person", max: 80 },
    prior: { name: "prior", kind: "real", help: "suspicion beforehand, in (0, 1)", initial: "0.1", exclusiveMin: 0, exclusiveMax: 1, symbol: "π" },
    simulation: { name: "simulation", kind: "flag", help: "randomness was seeded, so that nobody is protected", initial: "no" },
    name: { name: "name", kind: "text", help: "name of what is released", initial: "", optional: true, noneMeans: "none", max: 80 },
    report: { name: "report", kind: "text", help: "SHA-256 of the report that the figures come from", initial: "", optional: true, noneMeans: "none", max: 64 },
    verdict: { name: "verdict", kind: "text", help: "verdict on the report", initial: "", optional: true, noneMeans: "none", max: 60 },
    date: { name: "date", kind: "text", help: "date of the card", initial: "", optional: true, noneMeans: "today on a page or a command line", max: 10 },
  },
} as const satisfies Record<string, Record<string, ParameterSpec>>;

/** What a form holds, as a DPSGDRequest; what it does not ask stands at its default. */
export const readDPSGDRequest = (values: RawValues): DPSGDRequest => ({
  examples: number(values, "examples"),
  batch_size: number(values, "batch_size"),
  delta: number(values, "delta"),
  epochs: numberOrNull(values, "epochs"),
  steps: numberOrNull(values, "steps"),
  noise_multiplier: numberOrNull(values, "noise_multiplier"),
  epsilon: numberOrNull(values, "epsilon"),
  clip_norm: number(values, "clip_norm", 1.0),
  sampler: choice(values, "sampler", ["poisson", "truncated-poisson", "shuffled"] as const, "poisson"),
  max_batch_size: numberOrNull(values, "max_batch_size"),
  relation: choiceOrNull(values, "relation", ["add-or-remove-one", "replace-one", "zero-out"] as const),
});

/** What a form holds, as a FederatedRequest; what it does not ask stands at its default. */
export const readFederatedRequest = (values: RawValues): FederatedRequest => ({
  population: number(values, "population"),
  cohort_size: number(values, "cohort_size"),
  rounds: number(values, "rounds"),
  noise_multiplier: number(values, "noise_multiplier"),
  clip_norm: number(values, "clip_norm", 1.0),
  delta: numberOrNull(values, "delta"),
  delta_cap: numberOrNull(values, "delta_cap", 1e-06),
  sampling: choice(values, "sampling", ["poisson", "fixed-size", "balls-in-bins"] as const, "poisson"),
  relation: choice(values, "relation", ["add-or-remove-one", "replace-one", "zero-out"] as const, "add-or-remove-one"),
  privacy_unit: text(values, "privacy_unit", "client"),
  releases_per_period: number(values, "releases_per_period", 1),
  without_replacement: flag(values, "without_replacement", true),
  rounds_per_release: number(values, "rounds_per_release", 1),
  adaptive_clip: flag(values, "adaptive_clip", false),
  late_replies: choice(values, "late_replies", ["count-as-zero", "close-early", "replace"] as const, "count-as-zero"),
  group_size: number(values, "group_size", 1),
  trials: textOrNull(values, "trials"),
});

/** What a form holds, as a FederatedSchedule; what it does not ask stands at its default. */
export const readFederatedSchedule = (values: RawValues): FederatedSchedule => ({
  population: number(values, "population"),
  cohort_size: number(values, "cohort_size"),
  rounds: number(values, "rounds"),
  noise_multiplier: number(values, "noise_multiplier"),
  clip_norm: number(values, "clip_norm", 1.0),
  delta: numberOrNull(values, "delta"),
  delta_cap: numberOrNull(values, "delta_cap", 1e-06),
  sampling: choice(values, "sampling", ["poisson", "fixed-size", "balls-in-bins"] as const, "poisson"),
  relation: choice(values, "relation", ["add-or-remove-one", "replace-one", "zero-out"] as const, "add-or-remove-one"),
  privacy_unit: text(values, "privacy_unit", "client"),
  releases_per_period: number(values, "releases_per_period", 1),
});

/** What a form holds, as a QueriesRequest; what it does not ask stands at its default. */
export const readQueriesRequest = (values: RawValues): QueriesRequest => ({
  epsilon: number(values, "epsilon"),
  queries: number(values, "queries"),
  sensitivity: number(values, "sensitivity", 1.0),
  mechanism: choice(values, "mechanism", ["laplace", "gaussian"] as const, "laplace"),
  delta: numberOrNull(values, "delta"),
  delta_cap: numberOrNull(values, "delta_cap", 1e-06),
  queries_used: number(values, "queries_used", 0),
  weights: numbersOrNull(values, "weights"),
  population: numberOrNull(values, "population"),
  magnitude: numberOrNull(values, "magnitude"),
});

/** Published epsilons (plan/deployments.py). */
export const PUBLISHED = [
  {"name": "Google keyboard, best", "protects": "all data of a person or device", "epsilon": 0.994},
  {"name": "Microsoft Assistive AI", "protects": "all data of a person or device", "epsilon": 4.0},
  {"name": "Google keyboard, weakest", "protects": "all data of a person or device", "epsilon": 13.69},
  {"name": "US Census 2020, redistricting", "protects": "all data of a person or device", "epsilon": 17.44},
  {"name": "US Census 2020, demographics", "protects": "all data of a person or device", "epsilon": 51.57},
  {"name": "Wikipedia page views", "protects": "hours, a day, a month or one value", "epsilon": 1.0},
  {"name": "Windows app use", "protects": "hours, a day, a month or one value", "epsilon": 1.672},
  {"name": "Apple health types", "protects": "hours, a day, a month or one value", "epsilon": 2.0},
  {"name": "Google mobility reports", "protects": "hours, a day, a month or one value", "epsilon": 2.64},
  {"name": "Apple emoji", "protects": "hours, a day, a month or one value", "epsilon": 4.0},
  {"name": "Chrome RAPPOR, domains", "protects": "hours, a day, a month or one value", "epsilon": 4.395},
  {"name": "Apple typed words", "protects": "hours, a day, a month or one value", "epsilon": 16.0},
  {"name": "LinkedIn audiences", "protects": "hours, a day, a month or one value", "epsilon": 34.9},
] as const;
