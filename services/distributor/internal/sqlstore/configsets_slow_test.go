// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSlowSetOfManyServices changes a set that 20,000 services use, and one that shadows nothing for
// them.
func TestSlowSetOfManyServices(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: 20,000 services are left to `make test-all`")
	}
	const services, clusters = 20_000, 100
	url := "sqlite://" + t.TempDir() + "/leat.db"
	s := subject{Store: open(t, url), url: url}
	objects := []catalog.Object{repository("demo"), configSet("base", &catalog.Config{Secrets: secrets{"P": "1"}, Values: values{"A": "1"}})}
	for i := range clusters {
		objects = append(objects, cluster(fmt.Sprintf("c%d", i)))
	}
	objects = append(objects, projectWith("default", catalog.ProjectSpec{ConfigSets: []string{"base"}}))
	apply(t, s, objects...)
	start := time.Now()
	objects = nil
	for i := range services {
		objects = append(objects, service(fmt.Sprintf("s%d", i), fmt.Sprintf("c%d", i%clusters), "demo"))
		if len(objects) == catalog.MaxDocuments {
			apply(t, s, objects...)
			objects = nil
		}
	}
	t.Logf("%d services made in %v", services, time.Since(start).Round(time.Millisecond))
	since := changes(t, s, 0).Revision
	start = time.Now()
	apply(t, s, configSet("base", &catalog.Config{Secrets: secrets{"P": "2"}, Values: values{"A": "1"}}))
	took := time.Since(start)
	if got := len(changes(t, s, since).Services); got != services {
		t.Errorf("got %d services with new digests after %v, want %d", got, took, services)
	}
	t.Logf("a secret of a set of %d services changed in %v", services, took.Round(time.Millisecond))
	since = changes(t, s, 0).Revision
	start = time.Now()
	again := configSet("base", &catalog.Config{Secrets: secrets{"P": ""}, Values: values{"A": "1"}})
	again.Spec.Description = "the same"
	apply(t, s, again)
	if got := len(changes(t, s, since).Services); got != 0 {
		t.Errorf("got %d services that changed with a description", got)
	}
	t.Logf("and composed without a difference in %v", time.Since(start).Round(time.Millisecond))
}
