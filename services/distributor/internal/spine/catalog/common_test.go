// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestIsCommon sets each field of a service in turn: one that IsCommon ignored would be lost,
// because only the common part is kept of a common service.
func TestIsCommon(t *testing.T) {
	t.Parallel()
	common := &catalog.Service{Metadata: catalog.Metadata{Name: "web"}, Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "apps"}}}}
	if service := common.In("berlin", "1"); !service.IsCommon() || service.Name != "web@berlin" || service.UID != "1" || service.Spec.Cluster != "berlin" {
		t.Fatalf("got %+v", service)
	}
	if new(catalog.Service).IsCommon() {
		t.Error("a service that was not derived is common")
	}
	// These are the service's own, or mean nothing without another field.
	own := map[string]bool{"Name": true, "UID": true, "Cluster": true, "Common": true, "DerivedOptions": true}
	seen := 0
	var check func(at func(*catalog.Service) reflect.Value, of reflect.Type)
	check = func(at func(*catalog.Service) reflect.Value, of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			within := func(s *catalog.Service) reflect.Value { return at(s).Field(i) }
			switch {
			case own[field.Name]:
			case field.Type == reflect.TypeFor[catalog.Metadata](), field.Type == reflect.TypeFor[catalog.ServiceSpec](), field.Type == reflect.TypeFor[catalog.SourceRef]():
				check(within, field.Type)
			default:
				service := common.In("berlin", "1")
				within(service).Set(other(t, field.Type))
				if service.IsCommon() {
					t.Errorf("a service with another %s is common", field.Name)
				}
				seen++
			}
		}
	}
	check(func(s *catalog.Service) reflect.Value { return reflect.ValueOf(s).Elem() }, reflect.TypeFor[catalog.Service]())
	if seen < 20 {
		t.Errorf("looked at %d fields", seen)
	}
}

// other returns a value that is not the one in the test's common service.
func other(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	switch kind := of.Kind(); {
	case kind == reflect.String:
		return reflect.ValueOf("x").Convert(of)
	case kind == reflect.Bool:
		return reflect.ValueOf(true)
	case kind == reflect.Int64:
		return reflect.ValueOf(int64(1)).Convert(of)
	case kind == reflect.Pointer:
		return reflect.New(of.Elem())
	case kind == reflect.Slice: // an equal one, elsewhere in memory
		return reflect.MakeSlice(of, 1, 1)
	case kind == reflect.Map:
		m := reflect.MakeMap(of)
		m.SetMapIndex(reflect.ValueOf("a"), reflect.ValueOf("b"))
		return m
	case of == reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Unix(1, 0))
	}
	t.Fatalf("no value of %s", of)
	return reflect.Value{}
}

// TestExceptionIsNotCommon has people decide about one service, and take that back.
func TestExceptionIsNotCommon(t *testing.T) {
	t.Parallel()
	common := &catalog.Service{Spec: catalog.ServiceSpec{Options: &syncpolicy.Options{Namespace: "web"}}}
	service := common.In("berlin", "1")
	service.Except(&catalog.Exception{Paused: true})
	if service.IsCommon() {
		t.Error("a paused service is common")
	}
	service.Except(nil)
	if !service.IsCommon() {
		t.Error("a service is not common again after its exception has ended")
	}
}
