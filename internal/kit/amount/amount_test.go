// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package amount_test

import (
	"testing"

	"github.com/leatdev/leat/internal/kit/amount"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0 clusters": amount.Of(0, "cluster"), "1 cluster": amount.Of(1, "cluster"), "2 clusters": amount.Of(int32(2), "cluster"),
		"1 repository": amount.Of(1, "repository"), "3 repositories": amount.Of(int64(3), "repository"),
		"is": amount.Are(1), "are": amount.Are(0), "has": amount.Have(1), "have": amount.Have(2),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
