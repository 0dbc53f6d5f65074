// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/keys/rotation"
)

// rotationRetry is after how long a caller asks again for a rotation that is refused.
const rotationRetry = 30 * time.Second

// KeysDeps are the collaborators of [Keys], all required.
type KeysDeps struct {
	// People decides who may call.
	People *Service
	Keeper *rotation.Keeper
}

// Keys implements leat.fleet.v1.KeyService.
type Keys struct{ d KeysDeps }

var _ fleetv1connect.KeyServiceHandler = (*Keys)(nil)

// NewKeys returns the service that replaces the hub's keys.
func NewKeys(d KeysDeps) *Keys { return &Keys{d: d} }

// GetKeys implements KeyServiceHandler.
func (k *Keys) GetKeys(ctx context.Context, _ *fleetv1.GetKeysRequest) (*fleetv1.GetKeysResponse, error) {
	if err := k.d.People.atHub(ctx); err != nil {
		return nil, err
	}
	sealing, err := k.d.Keeper.SealingKeys(ctx)
	if err != nil {
		return nil, keyError(err)
	}
	signing, err := k.d.Keeper.SigningKeys(ctx)
	if err != nil {
		return nil, keyError(err)
	}
	response := &fleetv1.GetKeysResponse{ValuesWithoutKey: int64(sealing.WithoutKey)}
	for _, key := range sealing.Keys {
		response.SealingKeys = append(response.SealingKeys, &fleetv1.SealingKey{
			Id: key.ID, Root: key.Root, CreateTime: timestamppb.New(key.CreatedAt), Current: key.Current, Values: int64(key.Values),
		})
	}
	now := time.Now()
	for i, key := range signing {
		shown := shownSigningKey(key)
		shown.Current = !key.SignsAt.After(now) && (i+1 == len(signing) || signing[i+1].SignsAt.After(now))
		response.SigningKeys = append(response.SigningKeys, shown)
	}
	return response, nil
}

// RotateSealingKey implements KeyServiceHandler.
func (k *Keys) RotateSealingKey(ctx context.Context, r *fleetv1.RotateSealingKeyRequest) (*fleetv1.RotateSealingKeyResponse, error) {
	if err := k.d.People.atHub(ctx); err != nil {
		return nil, err
	}
	id, err := k.d.Keeper.RotateSealingKey(ctx, r.GetExpectedId())
	if err != nil {
		return nil, keyError(err)
	}
	return &fleetv1.RotateSealingKeyResponse{Id: id}, nil
}

// RotateSigningKey implements KeyServiceHandler.
func (k *Keys) RotateSigningKey(ctx context.Context, r *fleetv1.RotateSigningKeyRequest) (*fleetv1.RotateSigningKeyResponse, error) {
	if err := k.d.People.atHub(ctx); err != nil {
		return nil, err
	}
	key, err := k.d.Keeper.RotateSigningKey(ctx, r.GetExpectedId())
	if err != nil {
		return nil, keyError(err)
	}
	return &fleetv1.RotateSigningKeyResponse{Key: shownSigningKey(key)}, nil
}

func shownSigningKey(key rotation.SigningKey) *fleetv1.SigningKey {
	shown := &fleetv1.SigningKey{Id: key.ID, CreateTime: timestamppb.New(key.CreatedAt), SignTime: timestamppb.New(key.SignsAt)}
	if !key.EndsAt.IsZero() {
		shown.EndTime = timestamppb.New(key.EndsAt)
	}
	return shown
}

// keyError returns the error to answer with.
func keyError(err error) error {
	if errors.Is(err, rotation.ErrUnfinished) {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_ROTATION_UNFINISHED,
			err.Error()+"; wait until \"leat admin keys\" shows that it has", rpcerr.RetryAfter(rotationRetry))
	}
	if errors.Is(err, rotation.ErrNotCurrent) {
		return rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_VERSION_CONFLICT, err.Error()+"; nothing was changed")
	}
	return wire.Error(err)
}
