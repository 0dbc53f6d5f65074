// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// TestEqualPartsAreHeldOnce gives two services of a fleet equal sources and reports, as two reads
// from a database do: each in a place of its own.
func TestEqualPartsAreHeldOnce(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	read := func(name string) (*catalog.Service, catalog.StoredReport) {
		own := func(text string) string { return strings.Clone(text) }
		s := service(name, own("one"), catalog.Source{Repository: own("demo"), Path: own("shared")})
		s.Spec.Options = &syncpolicy.Options{Policy: syncpolicy.Policy{ServiceAccount: own("tenant")}}
		return s, catalog.StoredReport{
			Service: own(name), ServiceUID: own(s.UID), Entry: own("entry"),
			Report: &catalog.ServiceReport{
				Phase: catalog.PhaseHealthy, AppliedDigests: []string{own("sha256:1")}, Counts: catalog.Counts{Total: 3},
				AppliedConfigDigest: own("sha256:2"), ObservedConfigDigest: own("sha256:2"),
			},
		}
	}
	changes, want := catalog.Changes{}, catalog.Changes{}
	for _, name := range []string{"a", "b"} {
		s, report := read(name)
		changes.Services, changes.Reports = append(changes.Services, s), append(changes.Reports, report)
		s, report = read(name)
		want.Services, want.Reports = append(want.Services, s), append(want.Reports, report)
	}
	l.add(changes)
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, reports := make([]*catalog.Service, 2), make([]*catalog.ServiceReport, 2)
	for i, name := range []string{"a", "b"} {
		record, _ := v.Get(catalog.Key{Kind: catalog.KindService, Name: name})
		got[i], _ = record.Object.(*catalog.Service)
		reports[i] = record.Service.Report
		if diff := cmp.Diff(want.Services[i], got[i]); diff != "" {
			t.Errorf("service %s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(want.Reports[i].Report, record.Service.Report); diff != "" {
			t.Errorf("report of %s (-want +got):\n%s", name, diff)
		}
	}
	if &got[0].Spec.Sources[0] != &got[1].Spec.Sources[0] {
		t.Error("equal sources are held twice")
	}
	if &reports[0].AppliedDigests[0] != &reports[1].AppliedDigests[0] {
		t.Error("equal lists of digests are held twice")
	}
	texts := map[*byte]bool{}
	for _, report := range reports {
		texts[unsafe.StringData(report.AppliedConfigDigest)] = true
		texts[unsafe.StringData(report.ObservedConfigDigest)] = true
	}
	if len(texts) != 1 {
		t.Errorf("equal digests of configuration are held %d times", len(texts))
	}
	if got[0].Spec.Options != got[1].Spec.Options {
		t.Error("equal options are held twice")
	}
}
