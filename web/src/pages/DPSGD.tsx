import { CardLink } from "../components/CardLink";
import { useCallback, useMemo, useState } from "preact/hooks";
import { Assumptions } from "../components/Assumptions";
import { Copy } from "../components/Copy";
import { ErrorNotice } from "../components/ErrorNotice";
import { Field, FieldView } from "../components/Field";
import { LiveRegion } from "../components/LiveRegion";
import { Notice } from "../components/Notice";
import { GetCertificate } from "../components/on-demand";
import { RiskByNoise } from "../components/RiskByNoise";
import { boundTprOfClaim, countSteps, planDPSGD, type QuickDPSGD } from "../lib/browser-accountant/dp-sgd";
import { post } from "../lib/api";
import { type FieldSpec, type Form, type Raw, type Store, useForm, type Values } from "../lib/form";
import { type Message, sentence, typeset } from "../lib/messages";
import { show, showInteger, showPercent } from "../lib/numbers";
import { type DPSGDRequest, type DPSGDResponse, type DPSGDSnippetsResponse, type FoundResponse, PARAMETERS, readDPSGDRequest } from "../lib/openapi";
import { bound, countOf, GUESSED, near, OF } from "../lib/quantities";
import { makeFields } from "../lib/parameter-spec";
import { urlStore, toQuery } from "../lib/url-state";
import { useQuery, useRefinedQuery } from "../lib/use-query";
import "./dp-sgd.css";

const ASK = PARAMETERS.DPSGDRequest;
const SAMPLERS: readonly (readonly [string, string, string])[] = [
  ["poisson", "Poisson sampling", "Opacus and JAX Privacy loaders"],
  ["shuffled", "Shuffled batches", "DataLoader(shuffle=True)"],
  ["truncated-poisson", "Truncated Poisson", "JAX Privacy with a largest batch"],
];
const GOALS = [
  ["noise", "I know the noise"],
  ["target", "I have a target ε"],
] as const;

const given = (raw: Raw, name: string): boolean => (raw[name] ?? "").trim() !== "";

const FIELDS: readonly FieldSpec[] = [
  ...makeFields(ASK, {
    examples: { label: "Data set size", initial: "60,000", hint: "examples in training; public" },
    batch_size: { label: "Batch size", hint: "expected, of one step" },
    epochs: { label: "Epochs", optional: false, hint: "passes over the data", disabled: (raw) => given(raw, "steps") },
    steps: { label: "Steps", hint: "blank: from the epochs" },
    noise_multiplier: { label: "Noise multiplier", optional: false, hint: "noise on a batch’s sum ÷ clip norm", disabled: (raw) => raw.goal === "target", helpPage: "glossary.html#term-noise-multiplier" },
    epsilon: { label: "Target ε", initial: "3", symbol: undefined, optional: false, hint: "the least noise for it is found", disabled: (raw) => raw.goal !== "target" },
    clip_norm: { label: "Clipping norm", hint: "scales noise; does not change ε", helpPage: "learn/clipping.html" },
    delta: { label: "Delta", hint: "far below 1 ÷ data set size", helpPage: "learn/epsilon-and-delta.html" },
    max_batch_size: { label: "Largest batch", initial: "320", optional: false, hint: "larger ones are cut to it", disabled: (raw) => raw.sampler !== "truncated-poisson" },
    relation: { label: "Neighboring relation", choices: [["", "as the loader allows"], ...ASK.relation.choices], hint: "what one example changes", helpPage: "glossary.html#term-neighboring-relation" },
  }),
  { name: "goal", label: "What you know", kind: "choice", initial: "noise", choices: GOALS },
  { name: "names", label: "Names as in", kind: "choice", initial: "", choices: [["", "this page"], ["opacus", "Opacus"], ["jax-privacy", "JAX Privacy"]], hint: "renames the fields, changes no figure" },
];

/** What other libraries call the fields and figures. */
const NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  opacus: { examples: "len(dataset)", batch_size: "batch_size", epochs: "epochs", steps: "steps", noise_multiplier: "noise_multiplier", epsilon: "target_epsilon", clip_norm: "max_grad_norm", delta: "target_delta", sampling_probability: "sample_rate", sampler: "poisson_sampling" },
  "jax-privacy": { examples: "num_samples", batch_size: "batch_size", steps: "iterations", noise_multiplier: "noise_multiplier", clip_norm: "l2_clip_norm", delta: "delta", max_batch_size: "truncated_batch_size", sampling_probability: "sampling_prob", sampler: "batch_selection" },
};
const FOREIGN: Readonly<Record<string, string>> = { ...invert(NAMES.opacus!), ...invert(NAMES["jax-privacy"]!), num_updates: "steps", num_examples: "examples", l2_norm_clip: "clip_norm" };

function invert(names: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(names).filter(([name, foreign]) => name !== foreign).map(([name, foreign]) => [foreign, name]));
}

/** The address, in which other libraries' names stand for the fields, too. */
function namedStore(): Store {
  const store = urlStore();
  const read = (): Raw => {
    const raw = Object.fromEntries(Object.entries(store.read()).map(([name, text]) => [FOREIGN[name] ?? name, text]));
    const goal = given(raw, "epsilon") && !given(raw, "noise_multiplier") ? "target" : "noise";
    return Object.keys(raw).length === 0 || raw.goal ? raw : { ...raw, goal };
  };
  return { ...store, read };
}

function rule(values: Values): Record<string, string> {
  if (values.sampler === "shuffled" && values.relation === "add-or-remove-one") return { relation: "cannot be “add or remove one” with shuffled batches: a removed example would move the others" };
  return {};
}

/** Read the form; a field that is not used is nothing. */
const readAsk = (values: Values): DPSGDRequest => readDPSGDRequest({ ...Object.fromEntries(Object.keys(ASK).map((name) => [name, null])), ...values });

const UNIT = "example";
const [NEARLY_ALL, HARDLY_ANY] = [990, 11];

/** Return what the best attack finds, as the library writes it (plan/verdict.py). */
function describeFound(found: number, relation: string): Message {
  const kind = relation === "replace-one" ? "value" : "participation";
  if (found >= NEARLY_ALL) return ["page/nearly-all", { unit: UNIT }];
  return [`page/${found <= HARDLY_ANY ? "hardly" : "found"}-${kind}`, { found, units: `${UNIT}s` }];
}

export function DPSGD() {
  const store = useMemo(namedStore, []);
  const form = useForm(FIELDS, store, rule);
  const ask = useMemo(() => (form.values === null ? null : readAsk(form.values)), [form.values]);
  const onProblem = useCallback((problem: { errors: { field: string | null; message: string }[] }) => form.refuse(problem.errors), [form.refuse]);
  const main = useRefinedQuery<DPSGDRequest, QuickDPSGD>(
    ask,
    (one, signal) => post<DPSGDResponse>("dp-sgd", one, signal),
    async (one) => planDPSGD(one),
    { onProblem, delay: 200 },
  );
  const settled = main.settled && main.of === ask ? ask : null;
  const attack = useQuery(settled, (one, signal) => post<FoundResponse>("dp-sgd/attack", one, signal), { delay: 150 });
  const quick = useMemo(() => (ask === null ? null : boundQuickly(ask)), [ask]);
  const { answer } = main;
  const found = answer && Math.min(countOf(boundTprOfClaim(answer.epsilon.upper, answer.delta)), quick ?? OF, (attack.of === ask && attack.answer?.found) || OF);
  const names = NAMES[form.raw.names ?? ""] ?? {};
  const setNoise = (noise: string): void => {
    form.set("goal", "noise");
    form.set("noise_multiplier", noise);
  };
  return (
    <>
      <div class="run">
        <form class="card" aria-label="DP-SGD run" onSubmit={(e) => e.preventDefault()}>
          <fieldset>
            <legend>Your data and loader</legend>
            <div class="pair">
              <NamedFields form={form} fields={["examples", "batch_size", "epochs", "steps"]} names={names} />
            </div>
            <Choice form={form} name="sampler" label={names.sampler ? `Loader (${names.sampler})` : "How batches are drawn"} options={SAMPLERS} />
          </fieldset>
          <fieldset>
            <legend>Noise</legend>
            <Choice form={form} name="goal" label="What you know" options={GOALS} segmented />
            <div class="pair">
              <NamedFields form={form} fields={["noise_multiplier", "epsilon", "clip_norm", "delta"]} names={names} />
            </div>
          </fieldset>
          <fieldset>
            <legend>Names and details</legend>
            <div class="pair">
              <Field form={form} name="names" />
              <NamedFields form={form} fields={["relation", "max_batch_size"]} names={names} />
            </div>
          </fieldset>
        </form>
        <div class={main.busy ? "results busy" : "results"} aria-busy={main.busy}>
          <section class="card cost" aria-label="Result">
            {form.waiting || !answer || main.problem ? (
              <Withheld waiting={form.waiting} problem={main.problem} retry={main.retry} />
            ) : (
              <Headline answer={answer} found={found ?? OF} target={ask?.epsilon ?? null} refining={main.refining} />
            )}
          </section>
          <section class="card loader" aria-label="The other loader">
            {answer && !form.waiting ? writeLoaderNote(answer) : "Both loaders are compared here."}
          </section>
          <Facts answer={form.waiting ? null : answer} names={names} />
          {answer && !form.waiting && answer.delta_grade === "void" && <Notice grade={answer.delta_grade}>{typeset(answer.delta_sentence)}</Notice>}
          <RiskByNoise ask={form.waiting ? null : ask} noise={answer?.noise_multiplier ?? null} found={found} set={setNoise} commit={form.commit} />
          <div class="buttons">
            <GetCertificate release={settled && answer ? answer.release : undefined} delta={answer?.delta ?? null} relation={relationOf(answer)} />
            <Copy label="Copy link" text={() => `${location.origin}/dp-sgd?${toQuery(form.raw)}`} />
          </div>
          <p class="method">
            <CardLink release={settled && answer ? answer.release : undefined} delta={answer?.delta ?? null} relation={relationOf(answer)} unit={UNIT} /> Accuracy is not measured here. <a href="/docs/studies.html">Measure it in a study</a>
          </p>
          <Code ask={form.waiting ? null : settled} names={form.raw.names ?? ""} />
          {answer && <LiveRegion text={form.waiting || `Epsilon is at most ${bound(answer.epsilon.upper)}. ${sentence(describeFound(found ?? OF, answer.relation))}`} />}
        </div>
      </div>
      <Expert answer={form.waiting ? null : answer} />
    </>
  );
}

const relationOf = (answer: DPSGDResponse | null): "add-or-remove-one" | "replace-one" | "zero-out" | undefined => ASK.relation.choices.map(([name]) => name).find((name) => name === answer?.relation);

/** Return what the other loader would cost. */
function writeLoaderNote(answer: DPSGDResponse): string {
  const note: Message = [`loader/${answer.other_sampler === "poisson" ? "shuffled" : "poisson"}`, { other: answer.other_epsilon.upper }];
  return typeset(note).replace("epsilon ≤ ", "ε\u00a0≤\u00a0");
}

/** Return the browser's count of examples that are found; null where it has no bound. */
function boundQuickly(ask: DPSGDRequest): number | null {
  try {
    return countOf(planDPSGD(ask).tpr ?? 1);
  } catch {
    return null;
  }
}

/** Fields under the names of another library; the usual name becomes the hint. */
function NamedFields({ form, fields, names }: { form: Form; fields: readonly string[]; names: Readonly<Record<string, string>> }) {
  return (
    <>
      {fields.map((name) => {
        const spec = FIELDS.find((each) => each.name === name)!;
        const named = names[name] ? { ...spec, label: names[name], symbol: undefined, hint: spec.label } : { ...spec, symbol: undefined };
        const steps = name === "steps" && form.values !== null && !given(form.raw, "steps") ? `blank: ${showInteger(countSteps(readAsk(form.values)))}, from the epochs` : named.hint;
        return <FieldView key={name} spec={{ ...named, hint: steps }} name={name} raw={form.raw[name] ?? ""} reading={form.readings[name]!} attempted={form.attempted} set={(text) => form.set(name, text)} commit={form.commit} />;
      })}
    </>
  );
}

interface ChoiceProps {
  form: Form;
  name: string;
  label: string;
  options: readonly (readonly [value: string, label: string, hint?: string])[];
  segmented?: boolean;
}

/** One of a few options, all in sight. */
function Choice({ form, name, label, options, segmented }: ChoiceProps) {
  return (
    <div class={segmented ? "choice segmented" : "choice"} role="radiogroup" aria-label={label}>
      {options.map(([value, text, hint]) => (
        <label key={value}>
          <input type="radio" name={name} value={value} checked={form.raw[name] === value} onChange={() => (form.set(name, value), form.commit())} />
          <b>{text}</b>
          {hint && <small>{hint}</small>}
        </label>
      ))}
    </div>
  );
}

function Withheld({ waiting, problem, retry }: { waiting: string; problem: Parameters<typeof ErrorNotice>[0]["problem"] | null; retry: () => void }) {
  if (problem && !waiting) return <ErrorNotice problem={problem} retry={retry} />;
  return (
    <div class="headline withheld">
      <p class="claim">
        <b>–</b>
      </p>
      <p class="beside">{waiting || "Computing…"}</p>
    </div>
  );
}

function Headline({ answer, found, target, refining }: { answer: QuickDPSGD; found: number; target: number | null; refining: boolean }) {
  const [guesses, ...rest] = typeset(["page/guessing", { guessed: GUESSED, units: `${UNIT}s` }]).split(". ");
  const epsilon = <span class="nowrap">ε ≤ {bound(answer.epsilon.upper)}</span>;
  return (
    <div class="headline" data-refining={refining ? "" : undefined}>
      <p class="claim">
        {target === null ? (
          <>
            <span>ε ≤ </span>
            <b>{bound(answer.epsilon.upper)}</b>
          </>
        ) : (
          <>
            <span>noise </span>
            <b>{show(answer.noise_multiplier, 4)}</b>
          </>
        )}
      </p>
      <p class="beside">
        {target !== null && <>gives {epsilon} </>}at <span class="nowrap">δ = {near(answer.delta)},</span> {RELATIONS[answer.relation]}.
      </p>
      <p class="found">
        <BoldNumber text={typeset(describeFound(found, answer.relation))} />
        <small>
          {guesses}. <span class="rest">{rest.join(". ")}</span>
        </small>
      </p>
    </div>
  );
}

const RELATIONS: Readonly<Record<string, string>> = { "add-or-remove-one": "one example added or removed", "replace-one": "one example replaced", "zero-out": "one example zeroed out" };

/** The number in a sentence of the catalogue, set apart. */
function BoldNumber({ text }: { text: string }) {
  const [, before, number, after] = /^(.*?)(\d[\d,]* of 1,000|nearly every \w+)(.*)$/.exec(text) ?? [];
  return number === undefined ? (
    <>{text}</>
  ) : (
    <>
      {before}
      <b class="nowrap">{number}</b>
      {after}
    </>
  );
}

function Facts({ answer, names }: { answer: DPSGDResponse | null; names: Readonly<Record<string, string>> }) {
  const sampled = answer?.sampling_probability ?? null;
  return (
    <dl class="card facts">
      <div class="stat">
        <dt>{names.steps ?? "Steps"}</dt>
        <dd>{answer ? showInteger(answer.steps) : "–"}</dd>
      </div>
      <div class="stat">
        <dt>{names.sampling_probability ?? "Sampling rate"}</dt>
        <dd>{answer ? (sampled === null ? "once an epoch" : showPercent(sampled)) : "–"}</dd>
      </div>
      <div class="stat">
        <dt>Noise per weight, in the average gradient</dt>
        <dd>{answer ? near(answer.noise_stddev) : "–"}</dd>
      </div>
    </dl>
  );
}

/** The run as code, for each library that can do it; the one whose names are shown comes first. */
function Code({ ask, names }: { ask: DPSGDRequest | null; names: string }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const found = useQuery(ask, (body, signal) => post<DPSGDSnippetsResponse>("dp-sgd/elsewhere", body, signal), { delay: 300 });
  const { answer } = found;
  const tabs = answer && [
    ...answer.foreign,
    { name: "Python", code: answer.python, note: "epsilog computes the same bound." },
    { name: "Command line", code: answer.command, note: "The same bound in a terminal." },
    { name: "Run config", code: answer.run_config, note: answer.no_run_config ?? "epsilog run --check computes its cost. Add data and a model to run it." },
  ];
  const selected = tabs?.find((tab) => tab.name === (chosen ?? (names === "jax-privacy" ? "JAX Privacy" : "Opacus"))) ?? null;
  return (
    <section class="card code" aria-labelledby="code" aria-busy={found.busy}>
      <h2 id="code">Code to copy</h2>
      {found.problem && <ErrorNotice problem={found.problem} retry={found.retry} />}
      {!tabs && !found.problem && <p class="empty">{ask ? "Loading…" : "Waiting for a result."}</p>}
      {tabs && (
        <div class="choice segmented tabs" role="radiogroup" aria-label="Library">
          {tabs.map((tab) => (
            <label key={tab.name}>
              <input type="radio" name="library" checked={tab === selected} onChange={() => setChosen(tab.name)} />
              <b>{tab.name}</b>
            </label>
          ))}
        </div>
      )}
      {selected && (
        <>
          <p class="method">{typeset(selected.note)}</p>
          {selected.code !== null && (
            <>
              <pre tabIndex={0}>{selected.code}</pre>
              <div class="buttons">
                <Copy label="Copy code" text={() => selected.code ?? ""} />
                {answer!.playground && (
                  <a class="button" href={answer!.playground}>
                    Open in the playground
                  </a>
                )}
              </div>
            </>
          )}
        </>
      )}
    </section>
  );
}

/** Every digit, the method and what must hold. */
function Expert({ answer }: { answer: DPSGDResponse | null }) {
  return (
    <details class="card expert">
      <summary>Exact figures, method, assumptions</summary>
      {answer ? (
        <>
          <p>
            ε is {answer.epsilon.lower !== null && answer.epsilon.lower > 0 ? `between ${show(answer.epsilon.lower, 8, "down")} and` : "at most"} {show(answer.epsilon.upper, 8, "up")} at δ = {show(answer.delta)}; {RELATIONS[answer.relation]}. A person with
            several examples loses more.
          </p>
          <p>
            With the other loader, ε is at most {show(answer.other_epsilon.upper, 8, "up")}; {RELATIONS[answer.other_epsilon.relation]}.
          </p>
          <p>Shuffled batches use each example once an epoch. No amplification by shuffling is proven here, so each epoch counts as one Gaussian release. The clipping norm scales clip and noise together.</p>
          <p>{typeset(answer.delta_sentence)}</p>
          <p class="method">{sentence(answer.epsilon.method)}</p>
          <Assumptions lines={answer.epsilon.assumptions} />
        </>
      ) : (
        <p class="empty">No result.</p>
      )}
    </details>
  );
}
