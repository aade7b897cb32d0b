import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../lib/api";
import { linkTo } from "../lib/certificate";
import { download } from "../lib/download";
import type { CertifyRequest, CertifyResponse } from "../lib/openapi";
import { Problem } from "../lib/types";
import { ErrorNotice } from "./ErrorNotice";
import { Notice } from "./Notice";

interface Certifiable {
  release: CertifyRequest["release"] | undefined; // absent until the server has answered
  delta: number | null; // none is 0
  relation?: CertifyRequest["relation"];
}

/** Ask the server for a certificate of the shown release; it belongs to that release alone. */
export function GetCertificate(shown: Certifiable) {
  return <Certificate key={JSON.stringify(shown)} {...shown} />;
}

const NOT_MADE = 422; // not covered, or not found

function Certificate({ release, delta, relation = "add-or-remove-one" }: Certifiable) {
  const [made, setMade] = useState<CertifyResponse | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const make = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      setMade(await post<CertifyResponse>("certificate", { release, delta: delta ?? 0, relation }, stop.current.signal));
    } catch (error) {
      if (!stop.current.signal.aborted) setProblem(error instanceof Problem ? error : new Problem("No certificate", String(error)));
    }
    setBusy(false);
  };
  if (made)
    return (
      <div class="certified" aria-live="polite">
        <Notice grade="good">The certificate proves that ε is at most {made.claim[0]![1]}, and anyone can check it.</Notice>
        <div class="buttons">
          <button type="button" class="quiet" onClick={() => download("certificate.json", "application/json", `${made.certificate}\n`)}>
            Download certificate.json
          </button>
          <a class="button" href={linkTo(made.certificate)}>
            See what it proves
          </a>
        </div>
      </div>
    );
  return (
    <div class="certified" aria-live="polite">
      <div class="buttons">
        <button type="button" class="quiet" disabled={!release || busy} onClick={make}>
          {busy ? "Making a certificate…" : "Get a certificate"}
        </button>
      </div>
      {problem && (problem.status === NOT_MADE ? <Notice grade="weak">No certificate: {problem.message}</Notice> : <ErrorNotice problem={problem} retry={make} />)}
    </div>
  );
}
