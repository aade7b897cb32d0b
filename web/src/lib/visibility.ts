import { useEffect, useRef } from "preact/hooks";

/** Keep a form visible next to its results: a tall form scrolls until its end is visible, and then stays. */
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
