import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** A place for files: dropped there, or chosen. */
export function DropZone({ children, multiple, take }: { children: ComponentChildren; multiple?: boolean; take: (files: readonly File[]) => Promise<void> }) {
  const [over, setOver] = useState(false);
  return (
    <label
      class={over ? "drop over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void take(Array.from(event.dataTransfer?.files ?? []));
      }}
    >
      <span>{children}</span>
      <input
        type="file"
        multiple={multiple}
        onChange={(event) => {
          const { currentTarget } = event;
          void take(Array.from(currentTarget.files ?? [])).finally(() => {
            currentTarget.value = "";
          });
        }}
      />
    </label>
  );
}
