// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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
		record, _ := v.Records.Get(catalog.Key{Kind: catalog.KindService, Name: name})
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

// TestReportsComeBackWhole stores reports in which every field is set, with moments that a number of
// nanoseconds cannot hold among them, and requires them back as they were.
func TestReportsComeBackWhole(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	for name, moment := range map[string]time.Time{
		"usual": time.Date(2026, 11, 26, 12, 0, 0, 123456789, time.UTC), "none": {}, "1970": time.Unix(0, 0).UTC(), "long ago": time.Date(2, 1, 1, 0, 0, 0, 1, time.UTC),
		"far ahead": time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), "another zone": time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)),
	} {
		want := new(catalog.ServiceReport)
		fill(reflect.ValueOf(want).Elem(), moment, new(int))
		given := *want
		l.add(catalog.Changes{Reports: []catalog.StoredReport{{Service: "app", ServiceUID: "uid-app", Entry: name, ObservedGeneration: 7, Report: &given}}})
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		record, _ := v.Records.Get(catalog.Key{Kind: catalog.KindService, Name: "app"})
		if !reflect.DeepEqual(record.Service.Report, want) {
			t.Errorf("%s: (-want +got):\n%s", name, cmp.Diff(want, record.Service.Report))
		}
	}
}

// fill sets every field of a value, each one to something else, and counts them.
func fill(v reflect.Value, moment time.Time, count *int) {
	*count++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), moment, count)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), moment, count)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(moment))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), moment, count)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*count % 100))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*count % 100))
	default:
		panic("fill does not know " + v.Type().String())
	}
}

// TestReportsShareWhatTheySay gives two services reports that differ in their times alone, and requires that
// they take little more memory than one.
func TestReportsShareWhatTheySay(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	of := func(name string, at int) catalog.StoredReport {
		return catalog.StoredReport{Service: name, ServiceUID: "uid-" + name, Report: &catalog.ServiceReport{
			Phase: catalog.PhaseHealthy, AppliedAt: time.Unix(int64(at), 0).UTC(), ApplyDuration: time.Duration(at),
			Warnings: []string{strings.Clone("a chart"), strings.Clone("is deprecated")},
		}}
	}
	l.add(catalog.Changes{Reports: []catalog.StoredReport{of("app", 1), of("other", 2)}})
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	warnings := map[*string]bool{}
	for i, name := range []string{"app", "other"} {
		record, _ := v.Records.Get(catalog.Key{Kind: catalog.KindService, Name: name})
		if diff := cmp.Diff(of(name, i+1).Report, record.Service.Report); diff != "" {
			t.Errorf("report of %s (-want +got):\n%s", name, diff)
		}
		warnings[&record.Service.Report.Warnings[0]] = true
	}
	if len(warnings) != 1 {
		t.Error("what both reports say is held twice")
	}
}

// TestSecReplacedReportsAreFreed has an agent report something else again and again, with long
// texts. A replaced report does not stay in memory for others with the same content.
func TestSecReplacedReportsAreFreed(t *testing.T) {
	v, l, _ := newView(t)
	before := heap.Live()
	for i := range 500 {
		long := strings.Repeat("x", 32<<10) + fmt.Sprint(i)
		l.changes = []catalog.Changes{{Revision: v.Catalog.Revision() + 1, Reports: []catalog.StoredReport{{Service: "app", ServiceUID: "uid-app", Report: &catalog.ServiceReport{
			Counts: catalog.Counts{Total: int32(i)}, Warnings: []string{long},
		}}}}}
		if i%2 == 0 {
			l.changes[0].Reports[0].Report.AppliedConfigDigest, l.changes[0].Reports[0].Report.AppliedDigests = long+"a", []string{long + "b"}
		}
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap.Live() - before; grown > 4<<20 {
		t.Errorf("one service with one report takes %d bytes more", grown)
	}
	runtime.KeepAlive(v)
}
