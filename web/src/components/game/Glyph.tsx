import type { Name } from "../../lib/game";

const GLYPH: Record<Name, string> = {
  clinic: "M6 1h4v5h5v4h-5v5H6v-5H1V6h5z",
  school: "M8 1 15 5v1H1V5zM2 7h3v6H2zm4.5 0h3v6h-3zM11 7h3v6h-3zM1 14h14v1H1z",
  city: "M2 3h12v8H2zM3.5 4.5v3H7v-3zm5.5 0v3h3.5v-3zM3 12h3v2H3zm7 0h3v2h-3z",
};


/** The sign of a group; its name stands beside it. */
export function Glyph({ name }: { name: Name }) {
  return (
    <svg class="glyph" viewBox="0 0 16 16" aria-hidden="true">
      <path fill-rule="evenodd" d={GLYPH[name]} />
    </svg>
  );
}
