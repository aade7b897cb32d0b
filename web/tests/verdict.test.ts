// The card of epsilon and delta that an element computes, against the library's cards.

import { expect, test } from "vitest";
import vectors from "../../tests/vectors/verdict_pairs.json";
import { sentence } from "../src/lib/messages";
import { cardOfPair } from "../src/lib/verdict-pair";

/** Text in a terminal's spelling of powers of ten and thousands. */
const plain = (text: string): string => text.replace(/(?<=\d),(?=\d{3})/g, "").replace(/(?:([\d.]+) ?× ?)?10([⁻⁰¹²³⁴-⁹]+)/g, (_, factor: string | undefined, power: string) => `${factor ?? 1}e${[...power].map((one) => "⁰¹²³⁴⁵⁶⁷⁸⁹⁻".indexOf(one)).map((i) => (i === 10 ? "-" : i)).join("")}`);

test.each(vectors.cards)("$ask", ({ ask, found, says }) => {
  const { privacy_unit: unit, relation, ...rest } = ask;
  const card = cardOfPair({ ...rest, unit, replaces: relation === "replace-one" });
  // at a large delta the library's bound is wider than the exact one by less than a unit
  if (ask.delta <= 0.5) expect(card.found).toBe(found);
  else expect(found - card.found).toBeOneOf([0, 1]);
  if (card.found !== found) return;
  expect([card.headline, ...card.notes, card.suspicion, card.highest, card.claim, ...card.unprotected].map((one) => plain(sentence(one)))).toEqual(says.map(plain));
});
