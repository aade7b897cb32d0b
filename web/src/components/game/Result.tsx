import { useEffect, useState } from "preact/hooks";
import * as rules from "../../lib/game";
import type { Request } from "../../lib/game";
import { addressOf, capital, checkRecord, firstCome, lessons, playgroundOf, pointsOf, settle } from "../../lib/game-result";
import { show, showInteger } from "../../lib/numbers";
import { Copy } from "../Copy";
import { Table } from "../Table";
import { TextArea } from "../TextArea";
import type { Try } from "./Board";
import { Glyph } from "./Glyph";

const odds = (nanos: number): string => `${show(rules.oddsOf(nanos), 3, "up")} : 1`;

/** What is known once the shift is over: points, lessons, privacy loss and true numbers. */
export function Result({ here, game }: { here: { current: HTMLElement | null }; game: Try }) {
  const { shift, secret, first } = game;
  const results = settle(shift, secret.truthOf);
  const points = pointsOf(results);
  const sign = (request: Request): string => {
    const result = results.find((each) => each.request.id === request.id);
    return !result ? "·" : result.useful ? "●" : "✕";
  };
  const wrong = results.filter((each) => !each.useful).length;
  const line = (): string =>
    [`Release control ${shift.seed}: ${points} points, ${first ? "first try" : "practice"} (self-reported)`, shift.deck.map(sign).join(""), location.origin + addressOf(shift.seed)].join("\n");
  return (
    <section class="card" tabIndex={-1} ref={here} aria-label="Result of the shift">
      <div class="headline">
        <p class="claim scored">
          <b>{showInteger(points)}</b> <span>points</span>
        </p>
        <p class="beside">
          {results.length} answered, {wrong} wrong. Serving in order of arrival can expect {showInteger(firstCome(shift.seed))}. {first ? "A first try, as this browser reports it." : "Practice: this browser has seen these requests before."}
        </p>
      </div>
      <h2>What your game shows</h2>
      <ol class="limits lessons">
        {lessons(shift, results).map((lesson) => (
          <li key={lesson}>{lesson}</li>
        ))}
      </ol>
      <h2>Privacy loss by group</h2>
      {rules.NAMES.map((group) => {
        const nanos = rules.spent(shift, group);
        return (
          <p key={group} class="did">
            <Glyph name={group} /> <b>The {group}’s {showInteger(rules.GROUPS[group].people)} {rules.GROUPS[group].whom}</b>: an attacker’s odds that a given person is in the data{" "}
            {nanos === 0 ? (
              "stay at 1 : 1."
            ) : (
              <>
                rose from 1 : 1 to <b class="odds">at most {odds(nanos)}</b>.{" "}
                <a href={playgroundOf(shift, group)}>
                  Calculation: ε ≤ {show(rules.epsilonOf(nanos), 4, "up")} of {show(rules.GROUPS[group].cap, 3)}
                </a>
              </>
            )}
          </p>
        );
      })}
      {shift.releases.length > 0 && (
        <Table
          caption="Every number that you published, and the true one"
          prose
          columns={[{ title: "Question" }, { title: "Published", number: true }, { title: "True", number: true }, { title: "Answered", number: true }, { title: "Wrong", number: true }, { title: "Points", number: true }]}
          rows={shift.releases.map((release) => {
            const served = results.filter((each) => each.release === release);
            return [
              `${capital(release.request.group)}: ${rules.questionOf(release.request)}`,
              showInteger(release.published),
              showInteger(secret.truthOf(release.request)),
              served.length,
              served.filter((each) => !each.useful).length,
              showInteger(pointsOf(served)),
            ];
          })}
        />
      )}
      <div class="buttons">
        <Copy label="Copy the result" text={line} />
      </div>
    </section>
  );
}

/** Check a record: the player's own after a game, or anybody's. */
export function Check({ text: own }: { text: string }) {
  const [text, setText] = useState(own);
  const [said, setSaid] = useState("");
  useEffect(() => setText(own), [own]);
  const check = async (): Promise<void> => {
    const found = await checkRecord(text);
    setSaid(found ?? "This record holds: the key matches the commitment, and seed, key and acts give these numbers and points.");
  };
  return (
    <details class="card">
      <summary>Check {own ? "this" : "a"} game</summary>
      <TextArea
        label="Record of a game"
        hint="Seed and points, commitment, key, acts. A check proves that key and rules gave these numbers, and, for those who saw the commitment before the first release, that the key did not change. It cannot prove how many tries or keys the player had."
        rows={6}
        value={text}
        set={setText}
      />
      <div class="buttons">
        <button type="button" onClick={check}>
          Check
        </button>
        <Copy label="Copy the record" text={() => text} />
      </div>
      <p role="status">{said}</p>
    </details>
  );
}
