import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

/** The example, loaded separately into reserved space. */
function OneResult() {
  const [Example, setExample] = useState<ComponentType | null>(null);
  useEffect(() => {
    import("../components/Example").then(
      (part) => setExample(() => part.Example),
      () => {}, // the page works without it
    );
  }, []);
  return <section class="card example">{Example && <Example />}</section>;
}

/** What the site is for, one result, and where to go. */
export function Home({ places }: { places: readonly { path: string; name: string; says: string }[] }) {
  return (
    <div class="front">
      <section class="hero">
        <h1>
          Plan, spend, <em>verify</em> and prove a privacy budget.
        </h1>
        <p>epsilog proves how much published results can reveal about any one person. Drag the noise to see it.</p>
      </section>
      <OneResult />
      <ul class="places" aria-label="Where to go">
        {places.map(({ path, name, says }) => (
          <li key={path}>
            <a href={path}>{name}</a>
            <span>{says}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
