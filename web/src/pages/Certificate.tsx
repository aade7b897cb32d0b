import { useEffect, useRef, useState } from "preact/hooks";
import example from "../../../checker/proven/198.json?raw";
import { Card } from "../components/Card";
import { CertificateAnswer, CertificateDetails, useCertificateCheck } from "../components/CertificateResult";
import { DropZone } from "../components/DropZone";
import { readLink, readStart } from "../lib/certificate";
import "./evidence.css";

const ALTERED = example.replace(/(?<="epsilon":")[^"]*/, (epsilon) => (0.9 * Number(epsilon)).toPrecision(3));
const LONGEST = 1 << 17; // characters that the field takes; a paste beyond is checked without being shown
const PAUSE = 150; // ms without typing
const CARRIED = "from the address";

/** Check a certificate in this browser; nothing of it is sent. */
export function Certificate() {
  const [state, check] = useCertificateCheck();
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const checkText = (content: string): void => check(content.trim() ? new TextEncoder().encode(content.trim()) : null);
  /** Note what is shown now; an address that carries another certificate carries it no longer. */
  const begin = (content: string, from: string): void => {
    clearTimeout(timer.current);
    setText(content);
    setName(from);
    if (location.hash && from !== CARRIED) history.replaceState(null, "", location.pathname);
  };
  const show = (content: string, from: string): void => {
    begin(content.trim(), from);
    checkText(content);
  };
  const take = async ([file]: readonly File[]): Promise<void> => {
    if (!file) return;
    const bytes = await readStart(file);
    begin("", file.name);
    check(bytes);
  };
  useEffect(() => {
    const open = (): void => {
      const carried = readLink(location.hash);
      if (carried !== null) show(carried, CARRIED);
    };
    open();
    addEventListener("hashchange", open);
    return () => {
      clearTimeout(timer.current);
      removeEventListener("hashchange", open);
    };
  }, []);
  return (
    <div class="certificate">
      <CertificateAnswer
        state={state}
        empty={
          <div>
            <p class="lead">A certificate proves an epsilon. It is a file of about 1 kB.</p>
            <p>This browser checks yours with a program of 300 lines. Nothing is sent.</p>
          </div>
        }
      />
      <div class="stack given-here">
        <Card title="Certificate">
          <DropZone take={take}>Drop a certificate here, or choose a file:</DropZone>
          <div class="field">
            <label for="pasted">Or paste it</label>
            <textarea
              id="pasted"
              class="prose"
              rows={4}
              spellcheck={false}
              value={text}
              onPaste={(event) => {
                const pasted = event.clipboardData?.getData("text") ?? "";
                if (pasted.length < LONGEST) return;
                event.preventDefault();
                show(pasted.slice(0, LONGEST), "pasted");
                setText("");
              }}
              onInput={(event) => {
                const content = event.currentTarget.value;
                begin(content, "pasted");
                timer.current = setTimeout(() => checkText(content), PAUSE);
              }}
            />
          </div>
          {state.at !== "empty" && name && <p class="beside">Shown: {name}</p>}
          <p class="try">Or try an example:</p>
          <div class="buttons">
            <button type="button" onClick={() => show(example, "an example")}>
              A proven claim
            </button>
            <button type="button" onClick={() => show(ALTERED, "an altered example")}>
              The same with a smaller ε
            </button>
          </div>
        </Card>
        <Card title="Make one">
          <p>
            <a href="/federated">Federated</a>, <a href="/queries">Queries</a> and the <a href="/playground">Playground</a> give one for each answer. So does <code>epsilog certify</code>.
          </p>
        </Card>
      </div>
      <CertificateDetails state={state} />
    </div>
  );
}
