import { expect, test } from "vitest";
import { PARAMETERS } from "../src/lib/openapi";
import { makeFields } from "../src/lib/parameter-spec";
import { FEDERATED } from "../src/pages/Federated";
import { QUERIES } from "../src/pages/Queries";

test("a calculator has a field for every parameter of its request", () => {
  expect(FEDERATED.map((spec) => spec.name)).toEqual(expect.arrayContaining(Object.keys(PARAMETERS.FederatedRequest)));
  const { delta_cap: _, ...others } = PARAMETERS.QueriesRequest; // the form takes the server's default
  expect(QUERIES.map((spec) => spec.name)).toEqual(expect.arrayContaining(Object.keys(others)));
});

test("a parameter without overrides is a field with its own text and bounds", () => {
  const parameters = { dropouts: { name: "dropouts", kind: "integer", help: "clients that may drop out", initial: "0", min: 0, noneMeans: "none" } } as const;
  expect(makeFields(parameters, {})).toEqual([{ name: "dropouts", kind: "integer", initial: "0", min: 0, label: "Dropouts", hint: "clients that may drop out; blank: none" }]);
  expect(makeFields(parameters, { dropouts: null })).toEqual([]);
});
