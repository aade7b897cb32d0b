import type { Problem } from "../lib/types";

export function Trouble({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div class="notice void" role="alert">
      <span class="mark" aria-hidden="true">
        ✕
      </span>
      <span>
        <b>{problem.title}.</b> {problem.message !== problem.title && problem.message}{" "}
        {retry && problem.status === 0 && (
          <button type="button" class="quiet" onClick={retry}>
            Ask again
          </button>
        )}
      </span>
    </div>
  );
}
