// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/hubtest"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/testkit/await"
)

// ground is what the examples need at a hub: clusters, which every project may use.
const ground = `
{apiVersion: leat.dev/v1, kind: Project, metadata: {name: default}, spec: {shares: [{projects: {all: true}, clusters: {all: true}}]}}
---
{apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: prod}}
---
{apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: edge}}
---
{apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: tools}}
---
{apiVersion: leat.dev/v1, kind: Cluster, metadata: {name: core}}
---
{apiVersion: leat.dev/v1, kind: Project, metadata: {name: team-a}}
`

// TestTheHubTakesEveryExample applies what the examples of all tools become, as they are written, to a real hub.
func TestTheHubTakesEveryExample(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/testdata/*/documents.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("got the examples %q (%v)", files, err)
	}
	hub := hubtest.Start(t)
	c, err := client.New(client.Params{Server: hub.URL, Token: hubtest.Token})
	if err != nil {
		t.Fatal(err)
	}
	await.Success(t, "the hub takes clusters", func(ctx context.Context) error {
		_, err := c.Apply(ctx, &fleetv1.ApplyRequest{Documents: parsed(t, "ground", ground)})
		return err
	})
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Examples have objects of the same name, so each is tried alone.
		documents := parsed(t, file, string(text))
		if _, err := c.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents, DryRun: true}); err != nil && len(documents) > 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// parsed returns the documents of a file, as leat apply reads them.
func parsed(t *testing.T, name, text string) []*fleetv1.Document {
	t.Helper()
	found, err := document.Parse(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var documents []*fleetv1.Document
	for _, d := range found {
		documents = append(documents, d.Object)
	}
	return documents
}
