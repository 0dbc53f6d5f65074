// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
)

// DeliveryMessages returns records of webhooks as messages. An outcome that is not known, such as one
// of a later version, is unspecified.
func DeliveryMessages(records []hooklog.Record) []*gitcachev1.WebhookDelivery {
	messages := make([]*gitcachev1.WebhookDelivery, len(records))
	for i, record := range records {
		outcome := gitcachev1.WebhookOutcome_value["WEBHOOK_OUTCOME_"+strings.ToUpper(string(record.Outcome))]
		messages[i] = &gitcachev1.WebhookDelivery{
			ReceiveTime: timestamppb.New(record.Time), Provider: record.Provider, Outcome: gitcachev1.WebhookOutcome(outcome), Refs: record.Refs,
		}
	}
	return messages
}
