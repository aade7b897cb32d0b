import type { ComponentChildren } from "preact";
import { sentence } from "../lib/messages";
import { countPicked, explainPicked } from "../lib/quantities";
import { ProvisionalNote } from "./ProvisionalNote";

/** The answer first: a number, what it is, and what it means for people; utility stands beside risk. */
export function Outcome(props: {
  sign: string;
  value: string;
  refining: boolean;
  beside: ComponentChildren;
  found: number; // of 1,000 units
  units: string;
  utility?: ComponentChildren;
}) {
  return (
    <>
      <div class="headline">
        <p class="claim">
          <span>{props.sign} </span>
          <b>{props.value}</b>
        </p>
        <p class="beside">
          {props.beside}
          <ProvisionalNote when={props.refining} />
        </p>
      </div>
      <div class="duo">
        <p class="risk">
          <b>{countPicked(props.found)}</b> {sentence(explainPicked(props.found, props.units))}
        </p>
        {props.utility && <p class="use">{props.utility}</p>}
      </div>
    </>
  );
}
