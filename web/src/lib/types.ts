// The API's answers, as both engines give them, and its refusals.

export type { CurvePoint, FederatedAnswer, FederatedAsk, Finding, Interval, Noise, QueriesAnswer, QueriesAsk, QueryShare } from "./openapi";

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
