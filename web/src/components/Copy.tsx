import { useState } from "preact/hooks";

/** A button that copies text and confirms it. */
export function Copy({ label, text }: { label: string; text: () => string }) {
  const [status, setStatus] = useState("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      setStatus("Copied");
    } catch {
      prompt("Copy this text", text());
    }
    setTimeout(() => setStatus(""), 2000);
  };
  return (
    <button type="button" onClick={copy}>
      {status || label}
      <span class="hidden" role="status">
        {status}
      </span>
    </button>
  );
}
