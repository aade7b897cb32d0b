// Compares what the page shows with what the certificate claims, field by field, and checks the certificate.
const shown = [...document.querySelectorAll("#claimed tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
const answer = document.getElementById("proof"), text = document.getElementById("certificate").textContent;

function describe({ epsilon, delta, relation, group, releases }) {
  const named = ({ type, ...fields }) => `${type} (${Object.entries(fields).map((field) => field.join(" ")).join(", ")})`;
  const sampled = (chance) => (chance === "1" ? "" : `, in samples of ${chance}`);
  return [
    ["epsilon", epsilon], ["delta", delta], ["neighboring relation", relation], ["units of one person", `${group}`],
    ...releases.map(({ mechanisms, poisson, count }) =>
      [`${count} ${count === 1 ? "release" : "releases"}`, mechanisms.map(named).join(" and ") + sampled(poisson)]),
  ];
}

function compare() {
  const [proven, said] = judge(new TextEncoder().encode(text));
  if (!proven) return ["failed", `The certificate does not prove its claim. ${said}.`];
  const { claim } = JSON.parse(text);
  if (JSON.stringify(describe(claim)) !== JSON.stringify(shown))
    return ["failed", "The certificate claims something else than this page shows."];
  return ["passed", `Proven in this page: epsilon ${claim.epsilon} at delta ${claim.delta}, for the releases in the table.`];
}

setTimeout(() => {
  const [status, said] = compare();
  answer.className = status;
  answer.textContent += status === "passed" ? ", checked here" : ": refused";
  document.getElementById("said").textContent = said;
}, 20);
