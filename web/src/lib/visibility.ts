import { useEffect, useRef } from "preact/hooks";

/** Keeps a form in sight beside its results: a tall one goes up until its end is seen, and then stays. */
export function useStickyTop<E extends HTMLElement>() {
  const place = useRef<E>(null);
  useEffect(() => {
    const form = place.current!;
    const fit = (): void => void (form.style.top = `${Math.min(11, innerHeight - form.offsetHeight - 11)}px`);
    const observer = new ResizeObserver(fit);
    observer.observe(form);
    addEventListener("resize", fit);
    return () => {
      observer.disconnect();
      removeEventListener("resize", fit);
    };
  }, []);
  return place;
}
