import { useId, useRef, useState } from "preact/hooks";
import { sha256Of } from "../lib/hash";
import type { FileReferenceModel } from "../lib/openapi";
import { isComplete, isSha256, type OwnerFieldValues } from "../lib/owner-fields";
import { Problem } from "../lib/types";
import { TextArea } from "./TextArea";
import { ErrorNotice } from "./ErrorNotice";

const FILE_KINDS = [
  ["model", "model version"],
  ["data", "data-set descriptor"],
  ["playbook", "playbook"],
  ["other", "other file"],
] as const;

/** The owner's part of the record: the reason for delta, and the files that the calculation belongs to, by hash. */
export function OwnerFields({ values, set }: { values: OwnerFieldValues; set: (values: OwnerFieldValues) => void }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const errorId = useId();
  const latest = useRef(values);
  latest.current = values;
  const change = (i: number, to: Partial<FileReferenceModel>): void => set({ ...values, references: values.references.map((one, j) => (j === i ? { ...one, ...to } : one)) });
  const add = async (files: FileList | null | undefined): Promise<void> => {
    setProblem(null);
    try {
      const found: FileReferenceModel[] = [];
      for (const file of Array.from(files ?? [])) found.push({ what: "other", name: file.name.slice(0, 120), sha256: await sha256Of(file) });
      set({ ...latest.current, references: [...latest.current.references, ...found].slice(0, 20) });
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem("This file cannot be read", String(error)));
    }
  };
  return (
    <>
      <TextArea
        label="Reason for δ"
        hint="free text; stored in the record unchanged"
        rows={2}
        most={1000}
        value={values.delta_reason ?? ""}
        set={(text) => set({ ...values, delta_reason: text === "" ? null : text })}
      />
      <div
        class="drop"
        onDragOver={(e) => e.preventDefault()}
        onDrop={(e) => {
          e.preventDefault();
          void add(e.dataTransfer?.files);
        }}
      >
        <label>
          Drop the files that this calculation belongs to, or choose them{" "}
          <input type="file" multiple onChange={(e) => void add(e.currentTarget.files)} />
        </label>
        <small>This browser computes their SHA-256. It sends no file and stores no path, only the name shown here.</small>
      </div>
      {problem && <ErrorNotice problem={problem} />}
      {values.references.map((one, i) => (
        <div class="reference" key={i} role="group" aria-label={`Reference ${i + 1}`}>
          <select aria-label="Type of file" value={one.what} onInput={(e) => change(i, { what: FILE_KINDS.find(([kind]) => kind === e.currentTarget.value)?.[0] ?? "other" })}>
            {FILE_KINDS.map(([kind, label]) => (
              <option key={kind} value={kind} selected={kind === one.what}>
                {label}
              </option>
            ))}
          </select>
          <input type="text" aria-label="Name" maxLength={120} value={one.name} aria-invalid={one.name.trim() ? undefined : "true"} aria-describedby={errorId} onInput={(e) => change(i, { name: e.currentTarget.value })} />
          <input type="text" class="hash" aria-label="SHA-256, 64 hex digits" maxLength={64} spellcheck={false} value={one.sha256} aria-invalid={isSha256(one.sha256) ? undefined : "true"} aria-describedby={errorId} onInput={(e) => change(i, { sha256: e.currentTarget.value })} />
          <button type="button" class="quiet" aria-label={`Remove ${one.name || "this reference"}`} onClick={() => set({ ...values, references: values.references.filter((_, j) => j !== i) })}>
            remove
          </button>
        </div>
      ))}
      {values.references.length < 20 && (
        <button type="button" class="quiet" onClick={() => set({ ...values, references: [...values.references, { what: "other", name: "", sha256: "" }] })}>
          Enter a name and a hash
        </button>
      )}
      <p id={errorId} class="error" role="alert">
        {!isComplete(values) && "Each reference needs a name and a SHA-256 of 64 hex digits."}
      </p>
    </>
  );
}
