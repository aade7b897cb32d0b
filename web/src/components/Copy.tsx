import { useState } from "preact/hooks";

/** Copies text and says that it did. */
export function Copy({ label, text }: { label: string; text: () => string }) {
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      setSaid("Copied");
    } catch {
      prompt("Copy this text", text());
    }
    setTimeout(() => setSaid(""), 2000);
  };
  return (
    <button type="button" onClick={copy}>
      {said || label}
      <span class="hidden" role="status">
        {said}
      </span>
    </button>
  );
}
