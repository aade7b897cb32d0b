// The verdict card in a frame: nothing to type, the card of its address.

import { useMemo } from "preact/hooks";
import { ErrorNotice } from "../components/ErrorNotice";
import { VerdictCard } from "../components/VerdictCard";
import { post } from "../lib/api";
import { useForm } from "../lib/form";
import type { VerdictRequest, VerdictResponse } from "../lib/openapi";
import { urlStore } from "../lib/url-state";
import { useQuery } from "../lib/use-query";
import { readVerdictRequest, SPECS } from "../lib/verdict";
import "../components/verdict-card.css";

export function VerdictFrame() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const ask = useMemo(() => form.values && readVerdictRequest(form.values), [form.values]);
  const found = useQuery(ask, (body: VerdictRequest, signal) => post<VerdictResponse>("verdict", body, signal), { delay: 0 });
  if (found.problem) return <ErrorNotice problem={found.problem} retry={found.retry} />;
  if (ask === null) return <p class="empty">The address of this card has a value that cannot be read.</p>;
  return found.answer ? <VerdictCard card={found.answer} settled={!found.busy} /> : <p class="empty">Computing…</p>;
}
