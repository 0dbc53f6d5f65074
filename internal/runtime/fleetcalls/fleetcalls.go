// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleetcalls makes the calls about objects of any kind with the messages of one kind:
//
//	cluster, err := fleetcalls.Get[*fleetv1.Cluster](ctx, hub, "berlin")
package fleetcalls

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Hub answers the calls. fleetv1connect.FleetServiceClient implements it.
type Hub interface {
	Apply(ctx context.Context, req *fleetv1.ApplyRequest) (*fleetv1.ApplyResponse, error)
	Get(ctx context.Context, req *fleetv1.GetRequest) (*fleetv1.GetResponse, error)
	List(ctx context.Context, req *fleetv1.ListRequest) (*fleetv1.ListResponse, error)
	Delete(ctx context.Context, req *fleetv1.DeleteRequest) (*fleetv1.DeleteResponse, error)
}

// Object is the message of a kind: the type of a field of leat.fleet.v1.Document.
type Object interface {
	proto.Message
	GetMetadata() *typev1.Metadata
}

// KindOf returns the name of a kind, such as "Cluster".
func KindOf[M Object]() string {
	var object M
	return string(object.ProtoReflect().Descriptor().Name())
}

// Get returns the object of a name.
func Get[M Object](ctx context.Context, hub Hub, name string) (M, error) {
	response, err := hub.Get(ctx, &fleetv1.GetRequest{Kind: KindOf[M](), Name: name})
	return objectOf[M](response.GetDocument()), err
}

// Page is a part of a list.
type Page[M Object] struct {
	Objects []M
	// NextPageToken is empty after the last page.
	NextPageToken string
}

// List returns a page of objects. Of the request it sets the kind.
func List[M Object](ctx context.Context, hub Hub, req *fleetv1.ListRequest) (Page[M], error) {
	req.Kind = KindOf[M]()
	response, err := hub.List(ctx, req)
	page := Page[M]{NextPageToken: response.GetNextPageToken()}
	for _, document := range response.GetDocuments() {
		page.Objects = append(page.Objects, objectOf[M](document))
	}
	return page, err
}

// Create stores a new object, and returns what the hub stored. The error is ALREADY_EXISTS if an
// object has its name.
func Create[M Object](ctx context.Context, hub Hub, object M) (M, error) {
	return applyOne(ctx, hub, object, fleetv1.ApplyMode_APPLY_MODE_CREATE)
}

// Update replaces labels, annotations and spec of an object, and returns what the hub stored. The
// error is NOT_FOUND if no object has its name.
func Update[M Object](ctx context.Context, hub Hub, object M) (M, error) {
	return applyOne(ctx, hub, object, fleetv1.ApplyMode_APPLY_MODE_UPDATE)
}

// Delete removes the object of a name.
func Delete[M Object](ctx context.Context, hub Hub, name string) error {
	_, err := hub.Delete(ctx, &fleetv1.DeleteRequest{Kind: KindOf[M](), Name: name})
	return err
}

func applyOne[M Object](ctx context.Context, hub Hub, object M, mode fleetv1.ApplyMode) (stored M, err error) {
	response, err := hub.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{fleetdoc.Of(object)}, Mode: mode})
	if err != nil {
		return stored, ofOne(err)
	}
	if n := len(response.GetOutcomes()); n != 1 {
		return stored, fmt.Errorf("the hub answered with %d outcomes for one document", n)
	}
	return objectOf[M](response.GetOutcomes()[0].GetDocument()), nil
}

// objectOf returns the object in a document, or a nil message if it is of another kind.
func objectOf[M Object](document *fleetv1.Document) M {
	var none M
	if object := fleetdoc.Object(document); object != nil {
		if typed, ok := object.Interface().(M); ok {
			return typed
		}
	}
	return none
}

// ofOne returns the error of an Apply of one document without the place of the document, which its caller did not number.
func ofOne(err error) error {
	if !rpcerr.HasReason(err) {
		return err
	}
	const place = "documents[0]"
	message := rpcerr.Message(err)
	for _, prefix := range []string{place + ": ", place + "."} {
		message = strings.TrimPrefix(message, prefix)
	}
	var options []rpcerr.Option
	for key, value := range rpcerr.Metadata(err) {
		if key == rpcerr.MetadataField {
			value = strings.TrimPrefix(value, place+".")
		}
		options = append(options, rpcerr.With(key, value))
	}
	if delay, ok := rpcerr.RetryDelay(err); ok {
		options = append(options, rpcerr.RetryAfter(delay))
	}
	return rpcerr.New(connect.CodeOf(err), rpcerr.ReasonOf(err), message, options...)
}
