// Responses of both engines, and errors of the API.

export type { EpsilonCurvePointModel as CurvePoint, FederatedResponse, FederatedRequest, FindingModel as Finding, IntervalModel as Interval, QueryNoise as Noise, QueriesResponse, QueriesRequest, QueryShare } from "./openapi";

export interface FieldError {
  field: string | null;
  message: string;
}

/** Why a charge exceeds a budget; amounts are decimal strings by quantity. */
export interface Refusal {
  scope: string;
  requested: Record<string, string>;
  available: Record<string, string>;
  caps: Record<string, string>;
  spent: Record<string, string>;
  reserved: Record<string, string>;
  set_aside: Record<string, string>;
  shortfall: Record<string, string>;
  reason: string;
  hint: string;
  owners: string[];
}

/** An error of the API, with the fields it names. */
export class Problem extends Error {
  constructor(
    readonly title: string,
    detail: string,
    readonly errors: FieldError[] = [],
    readonly status = 0,
    readonly refusal: Refusal | null = null,
  ) {
    super(detail);
  }
}
