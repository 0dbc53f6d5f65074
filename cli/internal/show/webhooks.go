// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
)

// Webhooks prints the webhooks that arrived about a repository.
func Webhooks(w io.Writer, format Format, style Style, now time.Time, deliveries []*gitcachev1.WebhookDelivery) error {
	rows := newGrid(style, "RECEIVED", "FROM", "OUTCOME", "REFS")
	return items(w, format, rows, deliveries, func(d *gitcachev1.WebhookDelivery) []cell {
		return []cell{ago(d.GetReceiveTime(), now), plain(d.GetProvider()), webhookOutcome(d.GetOutcome()), list(d.GetRefs())}
	})
}

// webhookOutcome says in words what became of a webhook.
func webhookOutcome(outcome gitcachev1.WebhookOutcome) cell {
	words := map[gitcachev1.WebhookOutcome]cell{
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_ACCEPTED:   {"accepted", green},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_PING:       {"test of the connection", green},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_IGNORED:    plain("ignored: not about branches or tags"),
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_UNMATCHED:  {"ignored: it names the URL of another repository", yellow},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_REPLAYED:   plain("ignored: received before"),
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_MALFORMED:  {"refused: not what this provider sends", red},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_NO_PROOF:   {"refused: it carries no secret", red},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_WRONG_KEY:  {"refused: it has another secret", red},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_NO_SECRET:  {"refused: the repository has no secret", red},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_TOO_LARGE:  {"refused: too large", red},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_LIMITED:    {"refused: too many at once", red},
		gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_BROKEN_OFF: {"not all of it arrived", yellow},
	}
	if word, ok := words[outcome]; ok {
		return word
	}
	return plain("unknown")
}
