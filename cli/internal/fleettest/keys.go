// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// keys is a KeyService with two sealed values. A rotation of the sealing key seals one value at each
// look, and one of the signing key has a lead of an hour.
type keys struct {
	fleetv1connect.UnimplementedKeyServiceHandler

	mu      sync.Mutex
	old     int64 // values of the old sealing key; negative: there is no old key
	rotated int
	signing []*fleetv1.SigningKey
}

func newKeys() *keys {
	return &keys{old: -1, signing: []*fleetv1.SigningKey{{Id: "signing-1", CreateTime: timestamppb.Now(), SignTime: timestamppb.Now(), Current: true}}}
}

// GetKeys implements KeyServiceHandler.
func (k *keys) GetKeys(context.Context, *fleetv1.GetKeysRequest) (*fleetv1.GetKeysResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := []string{"0123456789abcdef", "123456789abcdef0", "23456789abcdef01"}
	response := &fleetv1.GetKeysResponse{SigningKeys: k.signing}
	current := &fleetv1.SealingKey{Id: ids[k.rotated%len(ids)], Root: "local/aaaabbbbccccdddd", CreateTime: timestamppb.Now(), Current: true, Values: 2}
	response.SealingKeys = []*fleetv1.SealingKey{current}
	if k.old >= 0 {
		current.Values -= k.old
		response.SealingKeys = append(response.SealingKeys, &fleetv1.SealingKey{
			Id: ids[(k.rotated-1)%len(ids)], Root: current.GetRoot(), CreateTime: timestamppb.Now(), Values: k.old,
		})
		k.old--
	}
	return response, nil
}

// RotateSealingKey implements KeyServiceHandler.
func (k *keys) RotateSealingKey(context.Context, *fleetv1.RotateSealingKeyRequest) (*fleetv1.RotateSealingKeyResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.old >= 0 {
		return nil, unfinished()
	}
	k.rotated, k.old = k.rotated+1, 1
	return &fleetv1.RotateSealingKeyResponse{Id: "123456789abcdef0"}, nil
}

// RotateSigningKey implements KeyServiceHandler.
func (k *keys) RotateSigningKey(context.Context, *fleetv1.RotateSigningKeyRequest) (*fleetv1.RotateSigningKeyResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.signing) > 1 {
		return nil, unfinished()
	}
	next := &fleetv1.SigningKey{Id: "signing-2", CreateTime: timestamppb.Now(), SignTime: timestamppb.New(time.Now().Add(time.Hour))}
	k.signing[0].EndTime = timestamppb.New(time.Now().Add(25 * time.Hour))
	k.signing = append(k.signing, next)
	return &fleetv1.RotateSigningKeyResponse{Key: next}, nil
}

func unfinished() error {
	return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_ROTATION_UNFINISHED, "the last rotation of this key has not ended yet")
}
