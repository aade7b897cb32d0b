import type { ComponentChildren } from "preact";

export interface Column {
  title: string;
  number?: boolean;
  tight?: boolean; // no line breaks
}

/** A table with a caption; `prose` tables become blocks on phones, others scroll sideways. */
export function Table(props: {
  caption: string;
  columns: readonly Column[];
  rows: readonly (readonly ComponentChildren[])[];
  prose?: boolean;
  dense?: boolean;
}) {
  const kind = `${props.prose ? "prose" : ""} ${props.dense ? "dense" : ""}`.trim();
  const cell = (column: Column | undefined): string => (column?.number ? "number" : column?.tight ? "tight" : "");
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.caption}>
      <table class={kind || undefined}>
        <caption>{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.title} scope="col" class={cell(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row, i) => (
            <tr key={i}>
              {row.map((content, j) => (
                <td key={j} class={cell(props.columns[j])} data-title={props.columns[j]?.title}>
                  {content}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
