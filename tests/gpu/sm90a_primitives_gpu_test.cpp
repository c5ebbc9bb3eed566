// Protects what the model says of bulk copies and stores, of synchronisation, of lanes, numbers and ordinary accesses:
// a device of sm_90a does the same.
#include <doctest/doctest.h>

#include "gpu/sm90a_units.hpp"

using namespace tj;

TEST_CASE("boxes land where their swizzle says, zeros outside the tensor on every side") {
  testing::check_boxes(test::on_sm90a);
}

TEST_CASE("bytes that no copy brings are counted") { testing::check_left_out(test::on_sm90a); }

TEST_CASE("boxes whose rows are shorter than the swizzle") { testing::check_narrow_boxes(test::on_sm90a); }

TEST_CASE("blocks of a cluster fill each other's slots, round after round") {
  for (const unsigned blocks : {2u, 4u, 64u, 256u}) testing::check_shared_boxes(test::on_sm90a, blocks);
}

TEST_CASE("a box reaches its rows and columns, and nothing outside the tensor is written but the rest of 16 bytes") {
  testing::check_stores(test::on_sm90a);
}

TEST_CASE("transposed matrices in shared memory: each column where its lane says") {
  testing::check_turned_stores(test::on_sm90a);
}

TEST_CASE("rings, turns, meetings") {
  testing::PrimitiveUnit unit = test::on_sm90a(testing::sync_text());
  for (int again = 0; again < 20; ++again) testing::check_block_syncs(unit);
}

TEST_CASE("values reach the lanes that they are for, one lane is elected") {
  testing::PrimitiveUnit unit = test::on_sm90a(testing::sync_text());
  testing::check_lanes(unit);
}

TEST_CASE("arrivals at other blocks' barriers, by as many phases as blocks go through") {
  testing::PrimitiveUnit unit = test::on_sm90a(testing::sync_text());
  for (int again = 0; again < 20; ++again) testing::check_cluster_arrivals(unit);
  for (int again = 0; again < 20; ++again) testing::check_words_between_blocks(unit);
}

TEST_CASE("a grid that waits itself finds what the one before has written") {
  testing::PrimitiveUnit unit = test::on_sm90a(testing::sync_text());
  for (int again = 0; again < 5; ++again) testing::check_grids_behind(unit);
}

TEST_CASE("registers move between roles, and keep what they hold") {
  testing::PrimitiveUnit unit = test::on_sm90a(testing::sync_text());
  testing::check_registers(unit);
}

TEST_CASE("roundings to 16 bits are exact, approximations within what they promise, NaN loses against any number") {
  testing::check_numbers(test::on_sm90a);
  testing::check_unpacked(test::on_sm90a);
}

TEST_CASE("ordinary accesses of every size move what they name, and no more") {
  testing::check_accesses(test::on_sm90a);
}
