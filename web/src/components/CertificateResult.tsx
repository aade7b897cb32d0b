import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Check, CHECKERS, describeBound, describeClaim, describeExcess, describeNeighbors, describePickedOut, FORMAT, linkTo, listStatements, WRONGLY_ACCUSED } from "../lib/certificate";
import { openChecker } from "../lib/certificate-checker";
import { hashText } from "../lib/hash";
import { Problem } from "../lib/types";
import { Card } from "./Card";
import { Copy } from "./Copy";
import { ErrorNotice } from "./ErrorNotice";
import { Table } from "./Table";

type State = { at: "empty" } | { at: "asked" } | { at: "checked"; found: Check } | { at: "failed"; problem: Problem };

/** The state of the last check; `check` takes a certificate, or null for none. The worker starts with the page. */
export function useCertificateCheck(): [state: State, check: (bytes: Uint8Array | null) => void] {
  const [state, setState] = useState<State>({ at: "empty" });
  const checker = useMemo(() => openChecker(), []);
  useEffect(() => checker.close, []);
  const check = (bytes: Uint8Array | null): void => {
    setState({ at: bytes ? "asked" : "empty" });
    if (!bytes) return;
    checker.check(bytes).then(
      (found) => setState({ at: "checked", found }),
      (problem: Problem) => setState({ at: "failed", problem }),
    );
  };
  return [state, check];
}

const ANSWERS = { proven: "Proven", "not-proven": "Not proven", "no-certificate": "This is no certificate" } as const;
const ICONS = { proven: "M16 31l10 10 19-21", "not-proven": "M19 19l22 22M41 19L19 41", "no-certificate": "M30 15v19M30 40v6" } as const;
const MOST_ROWS = 100;

/** One answer in large letters. */
export function CertificateAnswer({ state, empty }: { state: State; empty: ComponentChildren }) {
  const found = state.at === "checked" ? state.found : null;
  return (
    <section class={`card answer ${found?.outcome ?? "none"}`} aria-live="polite" aria-busy={state.at === "asked"}>
      {state.at === "empty" && empty}
      {state.at === "asked" && <p class="empty">Checking the certificate in this browser…</p>}
      {state.at === "failed" && <ErrorNotice problem={state.problem} />}
      {found && (
        <>
          <svg viewBox="0 0 60 60" aria-hidden="true">
            <circle cx="30" cy="30" r="30" />
            <path d={ICONS[found.outcome]} />
          </svg>
          <h2>{ANSWERS[found.outcome]}</h2>
          <div>{WORDS[found.outcome](found)}</div>
        </>
      )}
    </section>
  );
}

const WORDS: Record<Check["outcome"], (found: Check) => ComponentChildren> = {
  proven: ({ claim }) =>
    claim && (
      <>
        <p class="lead">
          <Unbroken text={describeBound(claim)} />
        </p>
        <p>{describeNeighbors(claim)}</p>
        <p>
          {describePickedOut(claim)} Guessing finds {WRONGLY_ACCUSED}.
        </p>
      </>
    ),
  "not-proven": ({ claim, message }) =>
    claim ? (
      <>
        <p class="lead">
          The proof does not show that <Unbroken text={describeBound(claim)} />
        </p>
        <p>
          <Unbroken text={describeExcess(message, claim)} />
        </p>
      </>
    ) : (
      <p class="lead">The checker refuses it: {reason(message)}.</p>
    ),
  "no-certificate": ({ message }) => (
    <>
      <p class="lead">The checker’s reason: {reason(message)}.</p>
      <p>
        A certificate is one line that begins with <code>{`{"format":"${FORMAT}"`}</code>. Reports belong on the <a href="/verify">Verify</a> page.
      </p>
    </>
  ),
};

/** Text whose numbers are not broken where they fit a line. */
const Unbroken = ({ text }: { text: string }) => <>{text.split(/(\S*\d\S*)/).map((part, i) => (i % 2 ? <span class="unbroken">{part}</span> : part))}</>;

/** The checker's line without its verdict and without the exact integer. */
const reason = (message: string): string => message.replace(/^\w+: /, "").replace(/ \([0-9a-f]+\)$/, "");

/** The claim, what is not proven, and how to check it elsewhere. */
export function CertificateDetails({ state }: { state: State }) {
  if (state.at !== "checked" || state.found.outcome === "no-certificate") return null;
  const { found } = state;
  const { claim, outcome } = found;
  return (
    <div class="stack checked">
      {claim && (
        <Card title={outcome === "proven" ? "What is proven" : "What it claims"}>
          <Table caption="The claim, from the certificate itself" columns={[{ title: "name" }, { title: "value" }]} rows={describeClaim(claim).slice(0, MOST_ROWS)} />
          {claim.releases.length + 4 > MOST_ROWS && <p class="beside">The certificate lists {claim.releases.length} kinds of releases; these are the first.</p>}
          {outcome === "proven" && <p class="beside">Picked out: by an attacker who wrongly accuses {WRONGLY_ACCUSED} of 1,000 outsiders.</p>}
        </Card>
      )}
      {claim && outcome === "proven" && <Limits statements={listStatements(claim)} />}
      <Repeat found={found} />
    </div>
  );
}

function Limits({ statements }: { statements: readonly string[] }) {
  return (
    <Card title="What is not proven">
      <ul class="limits">
        <li>That a run used these parameters, and released nothing else.</li>
        <li>That its noise was drawn right: real-valued, from a sound random generator.</li>
        {statements.length > 0 && <li>That the stated guarantees hold: {statements.join(", ")}. The claim takes them as given.</li>}
        <li>
          That this certificate belongs to a given report. <a href="/verify">Verify</a> compares the two.
        </li>
      </ul>
    </Card>
  );
}

/** How to check the same outside this page, and with what. */
function Repeat({ found }: { found: Check }) {
  const [digest, setDigest] = useState<string | null>(null);
  useEffect(() => {
    let here = true;
    void hashText(found.text).then((hash) => here && setDigest(hash));
    return () => {
      here = false;
    };
  }, [found.text]);
  return (
    <Card title="Check it outside this page">
      <p>A page can show anything. These commands give the same answer:</p>
      <pre>{"python dp_certificate.py certificate.json\nepsilog check certificate.json"}</pre>
      <div class="buttons">
        {CHECKERS.map((path) => (
          <a key={path} class="button" href={path} download>
            {path.slice(path.lastIndexOf("/") + 1)}
          </a>
        ))}
        <Copy label="Copy link with the certificate" text={() => location.origin + linkTo(found.text)} />
      </div>
      <dl class="hashes">
        <dt>The checker’s line</dt>
        <dd>
          <code>{found.message}</code>
        </dd>
        {digest && (
          <>
            <dt>SHA-256 of the certificate, without its line end</dt>
            <dd>
              <code>{digest}</code>
            </dd>
          </>
        )}
        {found.checker && (
          <>
            <dt>SHA-256 of the checker that ran here, dp_certificate.mjs</dt>
            <dd>
              <code>{found.checker}</code>
            </dd>
          </>
        )}
      </dl>
      <p>
        <a href="/docs/accounting/certificates.html">How the proof works</a>
      </p>
    </Card>
  );
}
