// Reads the routes of a plan: what travels, whence and whither, in which pieces.
#include "partitioner/plan_reader.h"
#include "partitioner/unsound.h"

namespace kerf::partitioner {

namespace {

Piece read_piece(const PlanFile& file, ValueId value, const Json& json, const std::string& where) {
  check_members(json, {"box", "contributions"}, where);
  Piece piece;
  const int rank = value == kStepVector ? 1 : file.model.value(value).spec.shape.rank();
  piece.box = read_box(json_at(json, "box", where), rank, where);
  if (!json.contains("contributions")) return piece;
  for (const Json& one : json_array(json, "contributions", where)) {
    check_members(one, {"node", "input", "box_number"}, where);
    Contribution c;
    c.use.node = file.node(json_at(one, "node", where), where);
    c.use.input = json_small(one, "input", 0, where);
    c.box_number = json_small(one, "box_number", 0, where);
    piece.contributions.push_back(c);
  }
  return piece;
}

Route read_route(const PlanFile& file, const Json& json, int id, const std::string& where) {
  check_members(json, {"value", "direction", "leg", "from", "to", "pieces"}, where);
  Route route;
  route.id = id;
  const std::string name = json_string(json, "value", where);
  route.value = file.model.find_value(name);
  if (route.value < 0 && name != value_name(file.model, Route{}))
    throw Unsound(format("{} has no value \"{}\"", file.model.name(), name), where);
  const std::string direction = json_string(json, "direction", where);
  if (direction != "forward" && direction != "backward")
    refuse_member(where, "\"direction\" must be \"forward\" or \"backward\"");
  route.gradient = direction == "backward";
  if (json.contains("leg")) route.leg = parse_leg(json_string(json, "leg", where), where);
  route.from = json_small(json, "from", 0, where);
  route.to = json_small(json, "to", 0, where);
  for (const Json& piece : json_array(json, "pieces", where))
    route.pieces.push_back(read_piece(file, route.value, piece, where + ".pieces"));
  return route;
}

}  // namespace

std::vector<Route> read_routes(const PlanFile& file) {
  std::vector<Route> routes;
  file.each("routes", [&](const Json& one, const std::string& where) {
    routes.push_back(read_route(file, one, static_cast<int>(routes.size()), where));
  });
  return routes;
}

}  // namespace kerf::partitioner
