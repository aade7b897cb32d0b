import { useEffect, useRef, useState } from "preact/hooks";

/** Tells a screen reader the result once typing has paused. */
export function LiveRegion({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  const first = useRef(true);
  useEffect(() => {
    const timer = setTimeout(() => setSaid(first.current ? "" : text), 700);
    first.current = false;
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <output class="hidden" aria-live="polite">
      {said}
    </output>
  );
}
