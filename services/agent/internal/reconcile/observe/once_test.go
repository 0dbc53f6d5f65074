// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"fmt"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// TestSecOnceIsBounded has a service of many Jobs: their stored data shares a ConfigMap with the
// rest.
func TestSecOnceIsBounded(t *testing.T) {
	t.Parallel()
	objects := observe.New(inventory.Set{}, nil, nil)
	for i := range 3 * observe.MaxOnce {
		objects.BeginOnce(inventory.Key{Group: "batch", Kind: "Job", Name: fmt.Sprint(i)}, "one", false)
	}
	objects.BeginOnce(inventory.Key{Group: "batch", Kind: "Job", Name: "0"}, "two", false)
	all := objects.Once()
	if len(all) != observe.MaxOnce || all[0].Content != "two" {
		t.Errorf("got %d, the first %+v, want %d, and those that are known brought up to date", len(all), all[0], observe.MaxOnce)
	}
}
