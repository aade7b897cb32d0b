import { verdictLink } from "../lib/verdict-link";

interface Facts {
  release: object | undefined; // nothing until the server has answered: the link keeps its place
  delta: number | null;
  relation?: string | undefined;
  unit?: string | undefined;
}

/** A link to the verdict card of a result. */
export function CardLink({ release, delta, relation, unit }: Facts) {
  const to = release && delta !== null ? verdictLink(release, { delta, relation, privacy_unit: unit }) : undefined;
  return (
    <a class="onward" href={to}>
      Make a card of this epsilon
    </a>
  );
}
