// Colors of an embed: a color scheme, and an accent that is made readable on the backgrounds of both schemes.

type Rgb = readonly [number, number, number];

/** Backgrounds of app.css that the accent is written on: card and paper. */
const BACKGROUNDS = { light: [[255, 255, 255], [250, 248, 244]], dark: [[27, 32, 36], [20, 23, 26]] } as const;
const TOWARD = { light: [0, 0, 0], dark: [255, 255, 255] } as const;
const ENOUGH = 4.5; // contrast of text, WCAG 2.2 AA
const TINT = 0.16; // of the accent in a soft background

/** Read #rgb or #rrggbb; null for any other text. */
export function parseColor(text: string): Rgb | null {
  const match = /^#(?:([0-9a-f])([0-9a-f])([0-9a-f])|([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2}))$/i.exec(text.trim());
  if (!match) return null;
  const [r, g, b] = match[1] ? match.slice(1, 4).map((digit) => digit + digit) : match.slice(4, 7);
  return [parseInt(r!, 16), parseInt(g!, 16), parseInt(b!, 16)];
}

function mix(from: Rgb, to: Rgb, share: number): Rgb {
  const part = (i: 0 | 1 | 2): number => Math.round(from[i] + (to[i] - from[i]) * share);
  return [part(0), part(1), part(2)];
}
const write = (color: Rgb): string => `#${color.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

function luminance(color: Rgb): number {
  const linear = (part: number): number => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
}

/** The contrast of two colors, from 1 to 21. */
export function contrast(one: Rgb, other: Rgb): number {
  const [first, second] = [luminance(one), luminance(other)];
  return (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
}

/** Return the accent for a scheme, as near to what was asked as is readable, and its soft background. */
export function fitAccent(accent: Rgb, scheme: "light" | "dark"): { accent: Rgb; soft: Rgb } {
  const backgrounds: readonly Rgb[] = BACKGROUNDS[scheme];
  for (let step = 0; step <= 50; step++) {
    const color = mix(accent, TOWARD[scheme], step / 50);
    const soft = mix(backgrounds[0]!, color, TINT);
    if ([...backgrounds, soft].every((each) => contrast(color, each) >= ENOUGH)) return { accent: color, soft };
  }
  return { accent: TOWARD[scheme], soft: backgrounds[0]! };
}

/** Apply `theme` (light, dark, auto) and `accent` to an element; app.css reads both. Other values are ignored. */
export function applyTheme(element: HTMLElement, theme: string | null, accent: string | null): void {
  element.dataset.theme = theme === "light" || theme === "dark" ? theme : "auto";
  const color = accent === null ? null : parseColor(accent);
  for (const scheme of ["light", "dark"] as const) {
    const fitted = color && fitAccent(color, scheme);
    for (const [name, value] of [[`--accent-${scheme}`, fitted?.accent], [`--accent-soft-${scheme}`, fitted?.soft]] as const) {
      if (value) element.style.setProperty(name, write(value));
      else element.style.removeProperty(name);
    }
  }
}
