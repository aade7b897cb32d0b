import { useState } from "preact/hooks";
import type { ExportProps } from "./ExportParts";
import { ExportParts } from "./on-demand";

/** What a calculation can be exported as, loaded when it is opened; it keeps what is typed. */
export function Export(props: ExportProps) {
  const [opened, setOpened] = useState(false);
  return (
    <details class="fold screen" onToggle={() => setOpened(true)}>
      <summary>
        <h2>Export, embed, print</h2>
      </summary>
      {opened && <ExportParts {...props} />}
    </details>
  );
}
