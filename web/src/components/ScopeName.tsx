/** A name that breaks only between its parts; a part wider than its place ends in an ellipsis. */
export function ScopeName({ name }: { name: string }) {
  return (
    <span class="scope-name" title={name}>
      {name.split(/(?<=[/_.-])/).map((part) => (
        <>
          <span>{part}</span>
          <wbr />
        </>
      ))}
    </span>
  );
}
