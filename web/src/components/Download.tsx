import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { text } from "../lib/api";
import { download } from "../lib/download";
import { hasToken } from "../lib/token";
import { Problem } from "../lib/types";
import { ErrorNotice } from "./ErrorNotice";

/** A link to a file on the server. A link cannot carry a token, so the page fetches the file when it has one. */
export function Download({ path, name, kind, children }: { path: string; name: string; kind: string; children: ComponentChildren }) {
  const [failure, setFailure] = useState<Problem | null>(null);
  const fetchFile = (event: Event): void => {
    if (!hasToken()) return;
    event.preventDefault();
    text(path).then(
      (content) => download(name, kind, content),
      (error: unknown) => setFailure(error instanceof Problem ? error : new Problem("Unexpected error", String(error))),
    );
  };
  return (
    <>
      <a class="button" href={`/api/v1/${path}`} download onClick={fetchFile}>
        {children}
      </a>
      {failure && <ErrorNotice problem={failure} />}
    </>
  );
}
