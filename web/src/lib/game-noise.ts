// What a key decides: the true numbers and the noise of one try. The SHA-256 of the key is shown before the first release,
// the key after the last, so anybody can check that no draw was changed, and a second try cannot know its own.

import { GROUPS, REQUESTS } from "./game";
import type { Request } from "./game";
import { hashText, hex } from "./hash";
import { Problem } from "./types";

export interface Secret {
  key: string;
  commitment: string;
  truthOf: (request: Request) => number;
  drawOf: (request: Request) => number; // uniform in (0, 1)
}

export const newKey = (): string => hex(crypto.getRandomValues(new Uint8Array(16)).buffer);

/** Compute SHA-256; `printf TEXT | sha256sum` prints the same. */
async function sha256(text: string): Promise<string> {
  const hash = await hashText(text);
  if (hash === null) throw new Problem("This page cannot commit to a key", "Browsers compute hashes only over HTTPS and on localhost. Open the page there.");
  return hash;
}

/** Return a number in (0, 1) from 52 bits of SHA-256 of "KEY LABEL". */
const uniform = async (key: string, label: string): Promise<number> => (parseInt((await sha256(`${key} ${label}`)).slice(0, 13), 16) + 0.5) / 2 ** 52;

export async function openKey(key: string): Promise<Secret> {
  const labels = [
    ...Array.from({ length: REQUESTS }, (_, id) => `noise ${id}`),
    ...Object.entries(GROUPS).flatMap(([name, { questions }]) => questions.map((_, k) => `truth ${name} ${k}`)),
  ];
  const [commitment, ...numbers] = await Promise.all([sha256(key), ...labels.map((label) => uniform(key, label))]);
  const drawn = new Map(labels.map((label, i) => [label, numbers[i] as number]));
  return {
    key,
    commitment: commitment as string,
    truthOf: ({ group, question, most }) => Math.round(most * GROUPS[group].people * (0.2 + 0.5 * drawn.get(`truth ${group} ${question}`)!)),
    drawOf: ({ id }) => drawn.get(`noise ${id}`)!,
  };
}

/** Return a quantile of Laplace noise. */
export const quantile = (scale: number, at: number): number => -Math.sign(at - 0.5) * scale * Math.log1p(-2 * Math.abs(at - 0.5));

/** Return the number that a release publishes: the true one, with Laplace noise, rounded to an integer. */
export const publish = (secret: Secret, request: Request, multiplier: number): number => secret.truthOf(request) + Math.round(quantile(multiplier * request.most, secret.drawOf(request)));
