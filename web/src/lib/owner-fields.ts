// The owner's fields of a calculation record.

import type { FileReferenceModel } from "./openapi";

export interface OwnerFieldValues {
  delta_reason: string | null;
  references: FileReferenceModel[];
}

export const EMPTY: OwnerFieldValues = { delta_reason: null, references: [] };

export const isSha256 = (text: string): boolean => /^[0-9a-f]{64}$/i.test(text.trim());

/** Whether every reference has a name and a valid hash. */
export const isComplete = (values: OwnerFieldValues): boolean => values.references.every((one) => one.name.trim() !== "" && isSha256(one.sha256));
