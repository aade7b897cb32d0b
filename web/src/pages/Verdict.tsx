// What does this epsilon mean? One card out of 1,000 people, of a pair, of a report or of a release from another page.

import { useMemo, useState } from "preact/hooks";
import { Copy } from "../components/Copy";
import { DropZone } from "../components/DropZone";
import { ErrorNotice } from "../components/ErrorNotice";
import { Field } from "../components/Field";
import { LiveRegion } from "../components/LiveRegion";
import { VerdictCard } from "../components/VerdictCard";
import { post } from "../lib/api";
import { type Form, type Raw, useForm } from "../lib/form";
import { sentence } from "../lib/messages";
import type { ReportVerificationModel, VerdictRequest, VerdictResponse } from "../lib/openapi";
import { elementSnippet, frameSnippet } from "../lib/snippets";
import { Problem } from "../lib/types";
import { urlStore } from "../lib/url-state";
import { useQuery } from "../lib/use-query";
import { HIDDEN, parseReport, rawOfReport, readVerdictRequest, SPECS, today } from "../lib/verdict";
import { cardQuery } from "../lib/verdict-link";
import "../components/verdict-card.css";

const LISTED_SPECS = SPECS.filter((spec) => ["epsilon", "delta", "privacy_unit", "prior", "relation"].includes(spec.name));
const MAX_BYTES = 4 * 1024 * 1024; // of a report, as on the server

export function Verdict() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const ask = useMemo(() => form.values && readVerdictRequest(form.values), [form.values]);
  const found = useQuery(ask, (body: VerdictRequest, signal) => post<VerdictResponse>("verdict", body, signal), { delay: 60, onProblem: (problem) => form.refuse(problem.errors) });
  const settled = ask !== null && !found.busy && !found.problem && found.answer !== null;
  const curve = (form.raw.release ?? "") !== "";
  const query = (): string => cardQuery({ ...form.raw, date: form.raw.date || today() });
  const badge = (): string => `${location.origin}/embed/verdict.svg?${query()}`;
  return (
    <div class="stack verdict-page">
      <form class="screen" aria-label="What you were told" onSubmit={(e) => e.preventDefault()}>
        <div class="fields">
          <Field form={form} name="epsilon" />
          <Field form={form} name="delta" />
          <Field form={form} name="privacy_unit" />
          <Field form={form} name="prior" />
        </div>
        {curve && <Origin form={form} />}
        <ReportDrop form={form} />
      </form>
      {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
      {ask !== null && found.answer ? (
        <VerdictCard card={found.answer} settled={settled} />
      ) : (
        <article class="card verdict-card waiting">
          <p class="empty">{form.values === null ? form.waiting : "Computing…"}</p>
        </article>
      )}
      <div class="buttons screen">
        <Copy label="Copy link" text={() => `${location.origin}/verdict?${query()}`} />
        <Copy label="Copy as text" text={() => (settled ? `${found.answer!.text}SHA-256 ${found.answer!.sha256}\n` : "")} />
        <button type="button" disabled={!settled} onClick={() => print()}>
          Print or save as PDF
        </button>
      </div>
      {found.answer && ask !== null && (
        <>
          <LiveRegion text={sentence(found.answer.headline)} />
          <details>
            <summary>The card as text</summary>
            <pre tabIndex={0}>{`${found.answer.text}SHA-256 ${found.answer.sha256}`}</pre>
            <p>
              The hash covers all lines before it. <a href="/docs/web.html#the-verdict-card">How to recompute it</a>, and{" "}
              <a href="/docs/accounting/interpretation.html#sentences-for-readers">the formula of each sentence</a>.
            </p>
          </details>
          <details>
            <summary>Sources of the published epsilons</summary>
            <ul class="limits">
              {found.answer.published.map((one) => (
                <li key={one.name}>
                  <a href={one.source} rel="noopener">
                    {one.name}
                  </a>
                  : epsilon {one.epsilon}, {one.delta === 0 ? "no delta" : `delta ${one.delta}`}
                  {one.rho !== null && `, from rho ${one.rho}`}; one unit holds {one.protects}
                </li>
              ))}
            </ul>
          </details>
          <details>
            <summary>Put it on another page: badge, image, element, frame</summary>
            <p>
              <b>Badge</b>, in Markdown:
            </p>
            <pre tabIndex={0}>{`[![${sentence(found.answer.headline)}](${badge()})](${location.origin}/verdict?${query()})`}</pre>
            <p>
              <b>Image</b>, 1200 by 630 pixels, which link previews show: <a href={`/embed/verdict.png?${query()}`}>open it</a>.
            </p>
            {!curve && (
              <>
                <p>
                  <b>Element</b>, which computes in the reader’s browser; <code>theme</code> and <code>accent</code> fit it to its page:
                </p>
                <pre tabIndex={0}>{elementSnippet(location.origin, "verdict", LISTED_SPECS, form.raw)}</pre>
              </>
            )}
            <p>
              <b>Frame</b>:
            </p>
            <pre tabIndex={0}>{frameSnippet(location.origin, "verdict", query())}</pre>
          </details>
        </>
      )}
    </div>
  );
}

/** Set several fields at once: one step of the history. */
function setAll(form: Form, raw: Raw): void {
  for (const [name, text] of Object.entries(raw)) form.set(name, text);
  form.commit();
}

/** Where the figures come from, and the way back to a pair. */
function Origin({ form }: { form: Form }) {
  const blank = Object.fromEntries(HIDDEN.map((name) => [name, name === "simulation" ? "no" : name === "relation" ? "add-or-remove-one" : ""]));
  return (
    <p class="origin">
      <span>
        The figures come from the <b>full curve</b> of {form.raw.name || "a mechanism"}.
      </span>
      <button type="button" class="quiet" onClick={() => setAll(form, { ...blank, epsilon: "4" })}>
        Enter an epsilon instead
      </button>
    </p>
  );
}

/** A report: this server verifies it and keeps nothing; its curve, unit and verdict become the card's. */
function ReportDrop({ form }: { form: Form }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const take = async ([file]: readonly File[]): Promise<void> => {
    if (!file) return;
    setProblem(null);
    try {
      if (file.size > MAX_BYTES) throw new Problem("This report is too large for a page", "Use `epsilog plan verdict --from-report`.");
      const text = await file.text();
      const report = parseReport(text);
      setAll(form, await rawOfReport(file, report, await verify(text)));
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem("This report cannot be read", String(error)));
    }
  };
  return (
    <>
      <DropZone take={take}>Or drop a report (report.json or report.html): the server checks it and keeps nothing.</DropZone>
      {problem && <ErrorNotice problem={problem} />}
    </>
  );
}

/** The server's verdict on a report; null where it asks for a token. */
async function verify(report: string): Promise<ReportVerificationModel | null> {
  try {
    return await post<ReportVerificationModel>("verify", { report });
  } catch (error) {
    if (error instanceof Problem && [401, 403].includes(error.status)) return null;
    throw error;
  }
}
