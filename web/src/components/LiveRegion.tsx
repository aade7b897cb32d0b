import { useEffect, useRef, useState } from "preact/hooks";

/** Announce the result to screen readers once typing pauses; an earlier result does not stay. */
export function LiveRegion({ text }: { text: string }) {
  const [announced, setAnnounced] = useState("");
  const first = useRef(true);
  useEffect(() => {
    const timer = setTimeout(() => setAnnounced(first.current ? "" : text), 700);
    first.current = false;
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <output class="hidden" aria-live="polite">
      {announced === text && announced}
    </output>
  );
}
