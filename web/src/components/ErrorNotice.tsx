import { useEffect, useState } from "preact/hooks";
import { hasToken, keepToken } from "../lib/token";
import type { Problem } from "../lib/types";

const RETRYABLE = new Set([0, 429, 503]); // no answer, or too many requests

export function ErrorNotice({ problem, retry }: { problem: Problem; retry?: () => void }) {
  if (problem.status === 401) return <TokenForm problem={problem} retry={retry} />;
  return (
    <div class="notice void" role="alert">
      <span class="mark" aria-hidden="true">
        ✕
      </span>
      <span>
        <b>{problem.title}.</b> {problem.message !== problem.title && problem.message}{" "}
        {retry && RETRYABLE.has(problem.status) && (
          <button type="button" class="quiet" onClick={retry}>
            Retry
          </button>
        )}
      </span>
    </div>
  );
}

/** Ask for a token, which stays in this page's memory only. */
function TokenForm({ problem, retry }: { problem: Problem; retry?: (() => void) | undefined }) {
  const [text, setText] = useState("");
  const [given, setGiven] = useState(false);
  const [wrong, setWrong] = useState(false);
  useEffect(() => {
    setGiven(false);
    setWrong(hasToken());
  }, [problem]);
  const submit = (event: Event): void => {
    event.preventDefault();
    keepToken(text);
    setText("");
    setGiven(true);
    retry?.();
  };
  return (
    <div class="notice void" role="alert">
      <span class="mark" aria-hidden="true">
        ✕
      </span>
      <form onSubmit={submit}>
        <p>
          <b>A token is required.</b>{" "}
          {given
            ? "Token set. Retry the action."
            : wrong
            ? "The server rejected this token: it is unknown or has expired."
            : "Ask the owner of the ledger for one. It stays in this page’s memory until you leave or reload the page."}
        </p>
        <div class="buttons">
          <input
            type="password"
            name="token"
            aria-label="Token"
            autocomplete="off"
            spellcheck={false}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <button type="submit" class="quiet" disabled={text.trim() === ""}>
            Use token
          </button>
        </div>
      </form>
    </div>
  );
}
