// The API's answers, as both engines give them. "inf" in JSON is Infinity here.

export interface Interval {
  lower: number | null; // null: this engine knows no lower bound
  upper: number;
  method: string;
  relation: string;
  assumptions: string[];
}

export interface FederatedAsk {
  population: number;
  cohort_size: number;
  rounds: number;
  noise_multiplier: number;
  clip_norm: number;
  delta: number | null;
  delta_cap: number | null;
  sampling: string;
  relation: string;
  privacy_unit: string;
  releases_per_period: number;
  without_replacement: boolean;
  rounds_per_release: number;
  adaptive_clip: boolean;
}

export interface FederatedAnswer {
  sampling_probability: number;
  noise_stddev: number;
  delta: { value: number; rationale: string; warnings: string[] };
  delta_grade: "void" | "weak" | "good";
  delta_sentence: string;
  formula: { root_term: number; linear_term: number; total: number; dominates: string };
  epsilon: Interval;
  unamplified: Interval;
  releases_per_period: number;
  cumulative: Interval;
  verdict: string;
  limits: string[];
}

export interface CurvePoint {
  rounds: number;
  lower: number | null;
  upper: number;
  formula: number;
}

export interface QueriesAsk {
  epsilon: number;
  queries: number;
  sensitivity: number;
  mechanism: string;
  delta: number | null;
  queries_used: number;
  weights: number[] | null;
  population: number | null;
  magnitude: number | null;
}

export interface Noise {
  scale: number;
  expected_error: number;
  error_95: number;
}

export interface QueryShare {
  count: number;
  weight: number;
  epsilon: number;
  classic: Noise;
  exact: Noise;
  optimal: Noise;
}

export interface QueriesAnswer {
  epsilon: number;
  delta: { value: number; rationale: string; warnings: string[] } | null;
  delta_grade: string | null;
  delta_sentence: string | null;
  mechanism: string;
  sensitivity: number;
  queries: number;
  queries_used: number;
  queries_left: number;
  consumed: { split: number; classic: Interval; exact: Interval; optimal: Interval };
  remaining: number;
  compatible: boolean;
  classic_total_delta: number;
  saving: number;
  magnitude: number | null;
  relative_error_95: number | null;
  shares: QueryShare[];
  findings: string[];
}

export interface FieldError {
  field: string | null;
  message: string;
}

/** A refusal in words, with the fields it names. */
export class Problem extends Error {
  constructor(
    readonly title: string,
    detail: string,
    readonly errors: FieldError[] = [],
    readonly status = 0,
  ) {
    super(detail);
  }
}
